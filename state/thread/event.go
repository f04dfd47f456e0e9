package thread

import "strings"

// The data of a thread's events. An event carries only what is new. That of
// thread.created is the [Thread], that of thread.updated a [Patch].

// Added is the data of message.added: a message of a turn, or a run that begins
// to answer the turn, or both. The event opens the turn when the digits of
// Message.ID (without a message: of Reply) are those of Turn. The message's blocks go
// without ids: that of the i-th (from 1) is the message's plus i.
type Added struct {
	Turn    string   `json:"turn"`
	Run     string   `json:"run,omitempty"`   // answers the turn
	Reply   string   `json:"reply,omitempty"` // id of the message that Run will make
	Message *Message `json:"message,omitempty"`
}

func (a *Added) opens() bool {
	id := a.Reply
	if a.Message != nil {
		id = a.Message.ID
	}
	return suffix(id) == suffix(a.Turn)
}

// Updated is the data of message.updated, tool.started, tool.completed and
// tool.failed: a block that is new in the turn's response, or replaces the one with its
// id. The block of a call that has ended goes without the call's input, which
// tool.started told.
type Updated struct {
	Turn  string `json:"turn"`
	Block Block  `json:"block"`
}

// Delta is the data of message.delta, as broadcast and as committed chunk: text
// that goes on a block from Offset, in UTF-8 bytes. Offset 0 begins the block.
type Delta struct {
	Turn   string `json:"turn"`
	Block  string `json:"block"`
	Type   string `json:"type,omitempty"` // of the block, when it begins and is not text
	Offset int    `json:"offset"`
	Text   string `json:"text"`
}

// ToolOutput is the data of the broadcast tool.output: what a command has printed
// since the last one.
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

// Rewound is the data of thread.rewound: turns that are no part of the thread
// any more.
type Rewound struct {
	Turns []string `json:"turns"`
	Run   string   `json:"run,omitempty"`
}

// Compacted is the data of thread.compacted: Summary stands for the turns up to
// and including UpTo.
type Compacted struct {
	UpTo    string `json:"upto"`
	Summary Block  `json:"summary"`
}

// streamThread returns the id of the thread that a stream belongs to.
func streamThread(stream string) (string, bool) { return strings.CutPrefix(stream, "thread/") }
