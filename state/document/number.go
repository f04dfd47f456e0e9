package document

import (
	"encoding/json"
	"math/big"
	"reflect"
	"strconv"
	"strings"

	"github.com/thole-dev/thole/journal"
)

// Numbers are kept as they were written, with every digit. They are added (increment)
// and compared (the test of a JSON Patch) as decimals, never as floating point.

// decimal is digits × 10^exponent. The digits have neither leading nor trailing
// zeros; those of zero are empty.
type decimal struct {
	negative bool
	digits   string
	exponent int
}

// parseDecimal parses a JSON number. It returns false if n is not a number or exceeds
// the bounds of stored numbers.
func parseDecimal(n json.Number) (decimal, bool) {
	text := string(n)
	const digits = "0123456789"
	number := text != "" && strings.ContainsAny(text[:1], "-"+digits) && strings.ContainsAny(text[len(text)-1:], digits)
	if !number || !json.Valid([]byte(text)) || !journal.FitNumber([]byte(text)) {
		return decimal{}, false
	}
	var d decimal
	text, d.negative = strings.CutPrefix(text, "-")
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		d.exponent, _ = strconv.Atoi(text[i+1:]) // fits: see FitNumber
		text = text[:i]
	}
	whole, fraction, _ := strings.Cut(text, ".")
	d.exponent -= len(fraction)
	all := strings.TrimLeft(whole+fraction, "0")
	d.digits = strings.TrimRight(all, "0")
	d.exponent += len(all) - len(d.digits)
	if d.digits == "" {
		return decimal{}, true
	}
	return d, true
}

// sum adds two numbers exactly; an empty a counts as 0, an empty by as 1. A result with
// more digits than a number may have is ErrInvalid.
func sum(a, by json.Number) (json.Number, error) {
	if a == "" {
		a = "0"
	}
	if by == "" {
		by = "1"
	}
	x, okX := parseDecimal(a)
	y, okY := parseDecimal(by)
	if !okX || !okY {
		return "", invalid("%.40s + %.40s is not a sum of numbers", a, by)
	}
	low := min(x.exponent, y.exponent)
	if x.digits == "" || y.digits == "" {
		low = x.exponent + y.exponent // the exponent of zero is 0
	}
	if max(x.top(), y.top())-low > journal.MaxNumberBytes {
		return "", invalid("%.40s + %.40s has more than %d digits", a, by, journal.MaxNumberBytes)
	}
	total := x.scaled(low)
	total.Add(total, y.scaled(low))
	text := write(total, low)
	if !journal.FitNumber([]byte(text)) {
		return "", invalid("%.40s + %.40s has more than %d digits", a, by, journal.MaxNumberBytes)
	}
	return json.Number(text), nil
}

// top returns the power of ten above the first digit.
func (d decimal) top() int { return d.exponent + len(d.digits) }

// scaled returns d / 10^exponent; exponent must not be above d's.
func (d decimal) scaled(exponent int) *big.Int {
	if d.digits == "" {
		return new(big.Int)
	}
	n, _ := new(big.Int).SetString(d.digits+strings.Repeat("0", d.exponent-exponent), 10) // digits only
	if d.negative {
		n.Neg(n)
	}
	return n
}

// write returns n × 10^exponent as JSON: a whole number without a point, any other
// number with the decimals it needs, or with an exponent if the decimals would begin
// with more than 20 zeros.
func write(n *big.Int, exponent int) string {
	digits := new(big.Int).Abs(n).String()
	for exponent < 0 && strings.HasSuffix(digits, "0") {
		digits, exponent = digits[:len(digits)-1], exponent+1
	}
	sign := ""
	if n.Sign() < 0 {
		sign = "-"
	}
	switch point := len(digits) + exponent; {
	case n.Sign() == 0:
		return "0"
	case exponent >= 0:
		return sign + digits + strings.Repeat("0", exponent)
	case point > 0:
		return sign + digits[:point] + "." + digits[point:]
	case point > -20:
		return sign + "0." + strings.Repeat("0", -point) + digits
	}
	return sign + digits + "e" + strconv.Itoa(exponent)
}

// sameNumber compares by value, as RFC 6902, section 4.6, does: 1.0 and 1e0 are the
// same. Numbers beyond the bounds, which older versions accepted, are the same only if
// they are written the same way.
func sameNumber(a, b json.Number) bool {
	if a == b {
		return true
	}
	x, okX := parseDecimal(a)
	y, okY := parseDecimal(b)
	return okX && okY && x == y
}

// Equal reports whether two values are equal as they were written: the same members in
// any order, and numbers digit for digit. Text that is not JSON equals nothing.
func Equal(a, b json.RawMessage) bool {
	x, errX := parse("value", a)
	y, errY := parse("value", b)
	return errX == nil && errY == nil && reflect.DeepEqual(x, y)
}
