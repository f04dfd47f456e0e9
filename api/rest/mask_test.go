package rest

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

var anID = regexp.MustCompile(`(?i)(?:thrd|run)_[0-9a-f]{32}`)

// two are the prefixes that anID has.
var two = ids{"thrd", "run"}

func scan(text string) (found [][]int) {
	for begin, end := two.next(text, 0); end > 0; begin, end = two.next(text, end) {
		found = append(found, []int{begin, end})
	}
	return found
}

// hexes are the digits of an id.
var hexes = strings.Repeat("0aF9", 8)

func masked() []string {
	return []string{"", "_", "run_", "thrd_", "run_" + hexes, "xrun_" + hexes + "f", "RuN_" + hexes, "THRD_" + hexes + "run_" + hexes,
		"run_" + hexes[1:], "run_" + hexes[1:] + "g", "run_" + hexes[1:] + "_", "hrd_" + hexes, "_" + hexes, "un_" + hexes, "run_run_" + hexes,
		"thrd_thrd_" + hexes + "_" + hexes, "run_" + hexes + "_run_" + hexes, "dec_" + hexes, "rün_" + hexes, "run_" + hexes[2:] + "ü", "\xffrun_" + hexes + "\xff"}
}

func TestTheScannerFindsTheIDs(t *testing.T) {
	for _, text := range masked() {
		if got, want := fmt.Sprint(scan(text)), fmt.Sprint(anID.FindAllStringIndex(text, -1)); got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
}

func FuzzTheScannerFindsTheIDs(f *testing.F) {
	for _, text := range masked() {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, text := range []string{text, strings.ReplaceAll(text, "0", hexes), text + hexes} {
			if got, want := fmt.Sprint(scan(text)), fmt.Sprint(anID.FindAllStringIndex(text, -1)); got != want {
				t.Errorf("%q: got %s, want %s", text, got, want)
			}
		}
	})
}

func TestATextWithoutIDsIsNotCopied(t *testing.T) {
	text := strings.Repeat("a_run_thrd_", 1000)
	show := func(string) bool { return false }
	if n := testing.AllocsPerRun(10, func() { two.zero(text, show) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkMask(b *testing.B) {
	for name, unit := range map[string]string{"plain": "no id is here, a_b. ", "underscores": "_", "almost": "run_" + hexes[1:]} {
		text := strings.Repeat(unit, 430_000/len(unit))
		b.Run(name+"/regexp", func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				anID.ReplaceAllStringFunc(text, func(id string) string { return id })
			}
		})
		b.Run(name+"/scanner", func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				two.zero(text, func(string) bool { return false })
			}
		})
	}
}

func TestMaskedDataIsReadAsAProgramReadsIt(t *testing.T) {
	const run = "run_0123456789abcdef0123456789abcdef"
	p := hidingRun(t, run, "thrd_0123456789abcdef0123456789abcdef")
	zeros := "run_" + strings.Repeat("0", 32)
	for data, want := range map[string]string{
		`{"a":"` + run + `"}`:                            `{"a":"` + zeros + `"}`,
		`{"a":"\u0072un\u005f\u0030` + run[5:] + `\n"}`:  `{"a":"` + zeros + `\n"}`,
		`{"a":"\\\u0072` + run[1:] + `"}`:                `{"a":"\\` + zeros + `"}`,
		`{"a":"\\u0072` + run[1:] + `"}`:                 `{"a":"\\u0072` + run[1:] + `"}`, // \u0072 is text
		`{"a":"\u0022\u005c\u0072u","b":"\u0061"}`:       `{"a":"\u0022\u005c\u0072u","b":"\u0061"}`,
		`{"a":{"shown":"` + run + `"}}`:                  `{"a":{"shown":"` + zeros + `"}}`,
		`{"shown":"` + run + `","a":"` + run + `"}`:      `{"shown":"` + run + `","a":"` + zeros + `"}`,
		`{"sh\u006fwn":{"x":["` + run + `","\u0072"]}}`:  `{"sh\u006fwn":{"x":["` + run + `","\u0072"]}}`,
		`{"` + run + `":1,"shown":"` + run + `","b":{}}`: `{"` + zeros + `":1,"shown":"` + run + `","b":{}}`,
		`["shown","` + run + `"]`:                        `["shown","` + zeros + `"]`,
		`"` + run + `"`:                                  `"` + zeros + `"`,
		`{"shown":"` + run:                               `{"shown":"` + zeros,
		`null`:                                           `null`,
		`"\u00"`:                                         `"\u00"`,
		`\`:                                              `\`,
	} {
		if got := p.maskData(data, []string{"shown"}); got != want {
			t.Errorf("%s\n got %s\nwant %s", data, got, want)
		}
	}
}
