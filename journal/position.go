package journal

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// MaxSeq is the largest sequence number: 2⁵³−1, the largest integer that every
// JSON reader holds exactly.
const MaxSeq = 1<<53 - 1

const (
	generationLen = 4
	epochLen      = generationLen + 8
	seqLen        = 16
	positionLen   = epochLen + 1 + seqLen
)

// Position is a place in a space's journal. Its text form,
// "<epoch>-<16 digits>", is opaque to readers and sorts bytewise in journal
// order. The zero Position means "none": before the first event, or absent.
type Position struct {
	Epoch string // 4-digit generation + 8 hex digits; "" only in the zero Position
	Seq   uint64 // dense per space, from 1; 0: before the first event
}

// NewEpoch returns a fresh epoch of the given generation (1…9999).
func NewEpoch(generation int) string {
	var b [4]byte
	rand.Read(b[:])
	return fmt.Sprintf("%04d", generation) + hex.EncodeToString(b[:])
}

// ParsePosition parses the text form. The empty string is the zero Position. Text that
// [Position.String] never returns is ErrInvalid.
func ParsePosition(s string) (Position, error) {
	if s == "" {
		return Position{}, nil
	}
	bad := func() (Position, error) {
		return Position{}, fmt.Errorf("%w: position %.40q is not <epoch>-<16 digits>", ErrInvalid, s)
	}
	if len(s) != positionLen || s[epochLen] != '-' {
		return bad()
	}
	epoch, digits := s[:epochLen], s[epochLen+1:]
	if !validEpoch(epoch) {
		return bad()
	}
	for _, c := range []byte(digits) {
		if c < '0' || c > '9' {
			return bad()
		}
	}
	seq, err := strconv.ParseUint(digits, 10, 64)
	if err != nil || seq > MaxSeq {
		return bad()
	}
	return Position{Epoch: epoch, Seq: seq}, nil
}

// validEpoch checks the form of an epoch: a generation in decimal, then hex digits.
func validEpoch(epoch string) bool {
	if len(epoch) != epochLen {
		return false
	}
	for _, c := range []byte(epoch[:generationLen]) {
		if c < '0' || c > '9' {
			return false
		}
	}
	return lowerHex(epoch)
}

// Check returns ErrInvalid if p has no valid text form.
func (p Position) Check() error {
	if p != (Position{}) && (!validEpoch(p.Epoch) || p.Seq > MaxSeq) {
		return invalidf("position %.12q with sequence number %d is not one", p.Epoch, p.Seq)
	}
	return nil
}

// String returns the text form; "" for the zero Position.
func (p Position) String() string {
	if p.IsZero() {
		return ""
	}
	return string(p.append(make([]byte, 0, positionLen)))
}

func (p Position) append(b []byte) []byte {
	if p.IsZero() {
		return b
	}
	b = append(b, p.Epoch...)
	b = append(b, '-')
	var digits [seqLen]byte
	for i, n := seqLen-1, p.Seq; i >= 0; i, n = i-1, n/10 {
		digits[i] = byte('0' + n%10)
	}
	return append(b, digits[:]...)
}

// IsZero reports whether p is the zero Position.
func (p Position) IsZero() bool { return p.Epoch == "" }

// Compare orders positions of one space: by epoch, then by sequence.
func (p Position) Compare(q Position) int {
	return cmp.Or(strings.Compare(p.Epoch, q.Epoch), cmp.Compare(p.Seq, q.Seq))
}

// MarshalText implements encoding.TextMarshaler.
func (p Position) MarshalText() ([]byte, error) { return p.append(nil), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *Position) UnmarshalText(b []byte) (err error) {
	*p, err = ParsePosition(string(b))
	return err
}
