package shape

import (
	"encoding"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// Parse parses text, a parameter of a request or a default, and sets v, which has the
// field's type. The items of a list are separated by commas. Errors say what is wrong
// with the text and do not name the field.
func (f *Field) Parse(text string, v reflect.Value) error {
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	if t, ok := v.Addr().Interface().(*time.Time); ok {
		at, err := parseTime(text)
		*t = at
		return err
	}
	if t, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		return t.UnmarshalText([]byte(text))
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Bool:
		if text != "true" && text != "false" {
			return fmt.Errorf("%.40q is neither true nor false", text)
		}
		v.SetBool(text == "true")
	case reflect.Int, reflect.Int64:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return fmt.Errorf("%.40q is not a whole number", text)
		}
		v.SetInt(n)
	case reflect.Float64:
		n, err := strconv.ParseFloat(text, 64)
		if err != nil || n != n {
			return fmt.Errorf("%.40q is not a number", text)
		}
		v.SetFloat(n)
	case reflect.Slice:
		parts := strings.Split(text, ",")
		list := reflect.MakeSlice(v.Type(), len(parts), len(parts))
		for i, part := range parts {
			if part == "" {
				return fmt.Errorf("%.60q has an empty item", text)
			}
			list.Index(i).SetString(part)
		}
		v.Set(list)
		return f.within(float64(len(parts)), " items")
	default:
		panic(fmt.Sprintf("shape: no text stands for %v", v.Type()))
	}
	return f.bounds(text)
}
