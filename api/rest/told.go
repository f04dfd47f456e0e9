package rest

import (
	"fmt"
	"reflect"
	"strings"
)

// An answer may name records that the caller may not know of. The structs that it
// consists of say in which fields, by a tag:
//
//	names:"masked"       texts: hidden ids in them are masked
//	names:"omitted"      the id of a record: empty if that is hidden
//	names:"with Parent"  empty if the field Parent, which is above this one, is empty
//	names:"shown"        as it is, also in the data of an event
//
// All other fields are shown as they are: what people wrote, what programs act on, and
// what the caller may know. Events are masked when they are read, in all their data but
// the members tagged "shown": see [privacy.maskEvent].

// told returns a handler's answer as the caller of p may see it. Every answer passes
// through it. It does not write to what the answer refers to, which may be shared.
func (h *handler) told(p *privacy, answer any) any {
	if p == nil || h.tell == nil {
		return answer
	}
	v := reflect.New(h.out).Elem()
	v.Set(reflect.ValueOf(answer))
	h.tell(p, v)
	return v.Interface()
}

// teller makes a value, which it may change, one that p shows.
type teller func(p *privacy, v reflect.Value)

// tellerOf returns the teller for values of a type, or nil if they are shown as they
// are. It uses text for the texts in them that no struct holds; nil: these are shown as
// they are. It panics on a tag that it cannot follow.
func tellerOf(t reflect.Type, text teller) teller {
	switch t.Kind() {
	case reflect.String:
		return text
	case reflect.Pointer:
		if tell := tellerOf(t.Elem(), text); tell != nil {
			return func(p *privacy, v reflect.Value) {
				if !v.IsNil() {
					own := reflect.New(t.Elem())
					own.Elem().Set(v.Elem())
					tell(p, own.Elem())
					v.Set(own)
				}
			}
		}
	case reflect.Slice:
		if tell := tellerOf(t.Elem(), text); tell != nil {
			return func(p *privacy, v reflect.Value) {
				if !v.IsNil() {
					own := reflect.MakeSlice(t, v.Len(), v.Len())
					reflect.Copy(own, v)
					for i := range own.Len() {
						tell(p, own.Index(i))
					}
					v.Set(own)
				}
			}
		}
	case reflect.Map:
		if tellerOf(t.Elem(), text) != nil {
			panic(fmt.Sprintf("told: the tag names does not reach into %v", t))
		}
	case reflect.Struct:
		return tellFields(t)
	}
	return nil
}

// tellFields returns the teller for structs of a type, or nil.
func tellFields(t reflect.Type) teller {
	var all []teller
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() && !f.Anonymous {
			continue
		}
		how, above, _ := strings.Cut(f.Tag.Get("names"), " ")
		var tell teller
		switch how {
		case "":
			if tell = tellerOf(f.Type, nil); tell == nil {
				continue
			}
		case "shown":
			continue
		case "masked":
			tell = tellerOf(f.Type, mask)
		case "omitted":
			tell = tellerOf(f.Type, omit)
		case "with":
			if other, ok := t.FieldByName(above); ok && other.Index[0] < i {
				all = append(all, func(_ *privacy, v reflect.Value) {
					if v.FieldByIndex(other.Index).IsZero() {
						v.Field(i).SetZero()
					}
				})
				continue
			}
		}
		if tell == nil {
			panic(fmt.Sprintf("told: %v.%s cannot be %s", t, f.Name, f.Tag))
		}
		all = append(all, func(p *privacy, v reflect.Value) { tell(p, v.Field(i)) })
	}
	if all == nil {
		return nil
	}
	return func(p *privacy, v reflect.Value) {
		for _, tell := range all {
			tell(p, v)
		}
	}
}

// shownIn returns the names of the members that an event's data of type t, or nil,
// shows as they are.
func shownIn(t reflect.Type) (names []string) {
	if t == nil || t.Kind() != reflect.Struct {
		return nil
	}
	for _, f := range reflect.VisibleFields(t) {
		if f.Tag.Get("names") == "shown" {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			names = append(names, name)
		}
	}
	return names
}

// mask and omit are the tellers for texts of fields tagged "masked" and "omitted".
func mask(p *privacy, v reflect.Value) { v.SetString(p.mask(v.String())) }

func omit(p *privacy, v reflect.Value) {
	if id := v.String(); id != "" && p.hidesRecord(p.concepts.KeyOfID(id)) {
		v.SetZero()
	}
}
