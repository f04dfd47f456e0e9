package thread

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/thole-dev/thole"
)

// Types of a block.
const (
	Text      = "text"
	Image     = "image"
	File      = "file"
	ToolUse   = "tool"
	Code      = "code"
	Reasoning = "reasoning"
	Notice    = "status"
	Failure   = "error"
	Summary   = "summary"
)

var blockTypes = []string{Text, Image, File, ToolUse, Code, Reasoning, Notice, Failure, Summary}

// Status of a turn, and of a tool block or streamed block. A block that was complete
// when it was added has no status.
const (
	Pending     = "pending"     // nobody has begun to answer
	Streaming   = "streaming"   // being written
	Done        = "done"        //
	Error       = "error"       // it failed
	Interrupted = "interrupted" // it was not completed
)

// Block is one piece of a message.
type Block struct {
	ID      string                     `json:"id,omitempty"`
	Type    string                     `json:"type"`
	Content string                     `json:"content,omitempty"` // text; for an image or file its address, see [CheckBlocks]
	Meta    map[string]json.RawMessage `json:"meta,omitempty"`
	Status  string                     `json:"status,omitempty"`
	Tool    *Tool                      `json:"tool,omitempty"` // only in a block of type tool
}

// Tool is a call of a tool and its result.
type Tool struct {
	Name        string          `json:"name"`
	Input       json.RawMessage `json:"input,omitempty"`
	Result      json.RawMessage `json:"result,omitempty"` // set when the call has ended
	OperationID string          `json:"operation_id,omitempty"`
	DurationMS  int64           `json:"duration_ms,omitempty"`
}

// clone copies a block; the JSON in it stays shared.
func (b Block) clone() Block {
	b.Meta = maps.Clone(b.Meta)
	if b.Tool != nil {
		tool := *b.Tool
		b.Tool = &tool
	}
	return b
}

// TextBlock returns a block of text.
func TextBlock(text string) Block { return Block{Type: Text, Content: text} }

// Roles of a message.
const (
	User      = "user"
	Assistant = "assistant"
	System    = "system"
)

// Message is one message in a turn.
type Message struct {
	ID       string         `json:"id"`
	Turn     string         `json:"turn,omitempty"`
	Run      string         `json:"run,omitempty"` // the run that wrote or answers it
	Role     string         `json:"role"`
	Blocks   []Block        `json:"blocks"`
	Status   string         `json:"status,omitempty"` // only of an assistant's message: its turn's status
	Time     time.Time      `json:"created_at,omitzero"`
	Position thole.Position `json:"position,omitzero"` // of the event that added it
}

// Turn is a request and the response to it.
type Turn struct {
	ID       string         `json:"id"`
	Run      string         `json:"run,omitempty"` // the run that answers it
	Status   string         `json:"status"`
	Request  []Block        `json:"request"`
	Response []Block        `json:"response"`
	Usage    *Usage         `json:"usage,omitempty"`
	Time     time.Time      `json:"created_at"`
	Position thole.Position `json:"position"` // of the event that opened it

	messages []*Message     // in the order of their positions
	reply    *Message       // the message that Run writes; in messages once it has a block
	begun    thole.Position // of the event with which Run began
}

// Asked tells apart what users said in a turn.
type Asked struct {
	Own     bool    // its run opened the turn, with a prompt or to go on from another run
	Opening []Block // what it was opened with: Run was asked that
	Joined  []Block // posted after Run had begun, so that it may not have seen it, and not answered since
}

// Asked returns what users said in t, which must come from [Threads.Turns].
func (t *Turn) Asked() Asked {
	a := Asked{Own: t.Run != "" && t.begun == t.Position}
	for _, m := range t.messages {
		switch {
		case m.Role == Assistant && m != t.reply:
			a.Joined = nil
		case m.Role == Assistant:
		case t.Run == "" || m.Position.Compare(t.begun) <= 0:
			a.Opening = append(a.Opening, m.Blocks...)
		case m.Role == User:
			a.Joined = append(a.Joined, m.Blocks...)
		}
	}
	return a
}

// Usage counts the tokens of calls to a model.
type Usage struct {
	InputTokens  int64 `json:"input_tokens" optional:"it is 0"`
	OutputTokens int64 `json:"output_tokens" optional:"it is 0"`
	TotalTokens  int64 `json:"total_tokens" optional:"it is the sum of the others"`
}

// Add adds v to u. A v without a total counts as input plus output.
func (u *Usage) Add(v Usage) {
	if v.TotalTokens == 0 {
		v.TotalTokens = sum(v.InputTokens, v.OutputTokens)
	}
	u.InputTokens = sum(u.InputTokens, v.InputTokens)
	u.OutputTokens = sum(u.OutputTokens, v.OutputTokens)
	u.TotalTokens = sum(u.TotalTokens, v.TotalTokens)
}

// sum returns a + b, or the largest int64 if that overflows.
func sum(a, b int64) int64 {
	if b > 0 && a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

func checkRole(role string) error {
	if role != User && role != Assistant && role != System {
		return fmt.Errorf("%w: role %.40q is not user, assistant or system", thole.ErrInvalid, role)
	}
	return nil
}

// Attachment returns a block for a file attached to a message, of type image if
// mediaType or a data URL says so. Name and mediaType may be empty.
func Attachment(name, mediaType, url string) Block {
	b := Block{Type: File, Content: url, Meta: map[string]json.RawMessage{}}
	if strings.HasPrefix(mediaType, "image/") || strings.HasPrefix(url, "data:image/") {
		b.Type = Image
	}
	for k, v := range map[string]string{"name": name, "type": mediaType} {
		if v != "" {
			b.Meta[k], _ = json.Marshal(v) // a string: cannot fail
		}
	}
	return b
}

// checkAddress accepts the addresses of an image's or a file's content: a data URL, the
// hash of a blob of the space, or an http or https URL, which Thole never fetches.
func checkAddress(address string) error {
	scheme, rest, _ := strings.Cut(address, ":")
	switch strings.ToLower(scheme) {
	case "data":
		if strings.Contains(rest, ",") {
			return nil
		}
	case "http", "https":
		if u, err := url.Parse(address); err == nil && u.Host != "" {
			return nil
		}
	default:
		if raw, err := hex.DecodeString(address); err == nil && len(raw) == sha256.Size && address == strings.ToLower(address) {
			return nil
		}
	}
	return fmt.Errorf("%w: %.80q is not a data, http or https URL or the SHA-256 of a blob", thole.ErrInvalid, address)
}

// CheckBlocks returns ErrInvalid if a message may not have these blocks. The content of
// an image or file must be a data URL, an http(s) URL, or the SHA-256 of a blob in
// lower-case hex.
func CheckBlocks(blocks []Block) error {
	for i := range blocks {
		if err := blocks[i].check(); err != nil {
			return fmt.Errorf("block %d: %w", i, err)
		}
	}
	return nil
}

func (b *Block) check() error {
	switch {
	case !slices.Contains(blockTypes, b.Type):
		return fmt.Errorf("%w: block type %.40q is not one of %v", thole.ErrInvalid, b.Type, blockTypes)
	case b.ID != "" && thole.CheckID("blk", b.ID) != nil:
		return thole.CheckID("blk", b.ID)
	case !utf8.ValidString(b.Content):
		return fmt.Errorf("%w: content is not UTF-8", thole.ErrInvalid)
	case b.Type == ToolUse && (b.Tool == nil || b.Tool.Name == ""):
		return fmt.Errorf("%w: a tool block names its tool", thole.ErrInvalid)
	case b.Type != ToolUse && b.Tool != nil:
		return fmt.Errorf("%w: only a block of type tool has a tool", thole.ErrInvalid)
	case b.Type == Image, b.Type == File:
		return checkAddress(b.Content)
	}
	return nil
}

// sibling returns id with the given prefix and n added to its last eight hex digits.
// The ids of a posted message's blocks are made like this and not stored: that of the
// i-th block (from 0) is the message's id plus i+1.
func sibling(prefix, id string, n int) string {
	digits := suffix(id)
	out := make([]byte, 0, len(prefix)+1+len(digits))
	out = append(append(append(out, prefix...), '_'), digits...)
	if len(digits) < 8 {
		return string(out)
	}
	var low [4]byte
	last := out[len(out)-8:]
	if _, err := hex.Decode(low[:], last); err == nil {
		binary.BigEndian.PutUint32(low[:], binary.BigEndian.Uint32(low[:])+uint32(n))
		hex.Encode(last, low[:])
	}
	return string(out)
}

// suffix returns an id without its prefix.
func suffix(id string) string {
	for i := range len(id) {
		if id[i] == '_' {
			return id[i+1:]
		}
	}
	return ""
}
