package shape

import (
	"fmt"
	"reflect"
)

// PointerTo returns the JSON Pointer to the member that part stands for. v points to a
// value of the shape, and part to a field of v, to an item of a list in v, or to a field
// of such an item. It returns "" if part points to none of these.
func (s *Shape) PointerTo(v, part any) string {
	at, _ := s.find(reflect.ValueOf(v).Elem(), part)
	return at
}

func (s *Shape) find(v reflect.Value, part any) (at string, found bool) {
	if v.Addr().Interface() == part {
		return "", true
	}
	switch v.Kind() {
	case reflect.Struct:
		for _, f := range s.Fields {
			if at, found := f.Shape.find(v.FieldByIndex(f.Index), part); found {
				return "/" + f.Name + at, true
			}
		}
	case reflect.Slice:
		if s.Kind != Array {
			break
		}
		for i := range v.Len() {
			if at, found := s.Elem.find(v.Index(i), part); found {
				return fmt.Sprintf("/%d%s", i, at), true
			}
		}
	}
	return "", false
}
