package thread

import "strings"

// The types of events' data. An event holds only what is new. The data of
// thread.created is a [Thread], that of thread.updated a [Patch].

// Added is the data of message.added: a message in a turn, or a run that begins to
// answer the turn, or both. The event opens the turn if Message.ID (or Reply, without a
// message) and Turn have the same digits. The message's blocks are stored without ids:
// that of the i-th (from 1) is the message's plus i.
type Added struct {
	Turn    string   `json:"turn"`
	Run     string   `json:"run,omitempty"`   // the run that answers the turn
	Reply   string   `json:"reply,omitempty"` // id of the message that Run will write
	Message *Message `json:"message,omitempty"`
}

func (a *Added) opens() bool {
	id := a.Reply
	if a.Message != nil {
		id = a.Message.ID
	}
	return suffix(id) == suffix(a.Turn)
}

// Updated is the data of message.updated, tool.started, tool.completed and tool.failed:
// a block that is new in the turn's response, or replaces the one with its id. The
// block of a call that has ended omits the input, which tool.started holds.
type Updated struct {
	Turn  string `json:"turn"`
	Block Block  `json:"block"`
}

// Delta is the data of message.delta, both as a broadcast and as a committed chunk:
// text to append to a block at Offset, in UTF-8 bytes. Offset 0 begins the block.
type Delta struct {
	Turn   string `json:"turn"`
	Block  string `json:"block"`
	Type   string `json:"type,omitempty"` // the block's type, if Offset is 0 and it is not text
	Offset int    `json:"offset"`
	Text   string `json:"text"`
}

// ToolOutput is the data of the broadcast tool.output: what a command has printed since
// the last such broadcast.
type ToolOutput struct {
	Block string `json:"block"`
	Text  string `json:"text"`
}

// Completed is the data of message.completed: the turn's response has ended.
type Completed struct {
	Turn   string `json:"turn"`
	Status string `json:"status"` // done, error or interrupted
	Usage  *Usage `json:"usage,omitempty"`
}

// Rewound is the data of thread.rewound: turns that were removed from the thread's
// history.
type Rewound struct {
	Turns []string `json:"turns"`
	Run   string   `json:"run,omitempty"`
}

// Compacted is the data of thread.compacted: Summary replaces the turns up to and
// including UpTo.
type Compacted struct {
	UpTo    string `json:"upto"`
	Summary Block  `json:"summary" names:"shown"`
}

// streamThread returns the id of the thread that a stream belongs to.
func streamThread(stream string) (string, bool) { return strings.CutPrefix(stream, "thread/") }
