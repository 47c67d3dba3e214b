package event

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// A run that waits for a value of another run requests a notice from it with a message of
// NoticeTopic, which the code does not see. The other run sends the notice, once, when it has set
// the value or has ended. The notice only means that the value should be rechecked. The log of the
// run that was asked determines which notices it sends, and by which events.

// NoticeTopic is the topic of messages that request a notice.
const NoticeTopic = "flowgen.notice"

// Notice is the payload of such a message.
type Notice struct {
	Value string `json:"value"`
	// Checked is the [LogState.NoticeMark] of the run that was asked when the value was last
	// checked; empty: unknown, or the mark was empty.
	Checked string `json:"checked,omitempty"`
}

// noticePrefix is the prefix of the IDs of items that request a notice.
const noticePrefix = "notice:"

// NoticeItem returns the ID of the item by which an operation of a run requests a notice. It
// contains the run, so that an item that arrives too late to be read can still be answered.
func NoticeItem(run RunID, key string) ItemID {
	return ItemID(noticePrefix+string(run)+":") + DerivedItemID(run, key)
}

// NoticeFor returns the run that requests a notice with this item. It returns false for other
// items.
func NoticeFor(item ItemID) (RunID, bool) {
	rest, ok := strings.CutPrefix(string(item), noticePrefix)
	run, _, whole := strings.Cut(rest, ":")
	return RunID(run), ok && whole
}

// notices are the notices requested from a run.
type notices struct {
	set     map[string]bool     // values that the log sets
	pending map[string][]ItemID // unanswered requests, by value
	given   map[uint64][]ItemID // answered requests, by the number of the answering event
}

// ask applies a message that requests a notice.
func (f *LogState) ask(e *Event) {
	n := &f.notices
	var asked Notice
	if json.Unmarshal(e.Payload, &asked) != nil { // answered at once
		n.give(e.Seq, []ItemID{e.Item})
		return
	}
	if n.set[asked.Value] || asked.Checked != f.NoticeMark() {
		n.give(e.Seq, []ItemID{e.Item})
		return
	}
	if n.pending == nil {
		n.pending = map[string][]ItemID{}
	}
	n.pending[asked.Value] = append(n.pending[asked.Value], e.Item)
}

// setValue applies the setting of a value.
func (f *LogState) setValue(e *Event) {
	n := &f.notices
	if n.set == nil {
		n.set = map[string]bool{}
	}
	n.set[e.Name] = true
	n.give(e.Seq, n.pending[e.Name])
	delete(n.pending, e.Name)
}

func (n *notices) give(seq uint64, to []ItemID) {
	if len(to) == 0 {
		return
	}
	if n.given == nil {
		n.given = map[uint64][]ItemID{}
	}
	n.given[seq] = append(n.given[seq], to...)
}

// NoticeMark distinguishes the runs of a chain: a run's log does not contain the values set by
// earlier runs.
func (f *LogState) NoticeMark() string {
	if f.Spec == nil {
		return ""
	}
	return string(f.Spec.ContinuedOf)
}

// NoticesAt returns the items that event number seq answers.
func (f *LogState) NoticesAt(seq uint64) []ItemID { return f.notices.given[seq] }

// NoticesPending calls yield for each unanswered item with its value, ordered by value.
func (f *LogState) NoticesPending(yield func(item ItemID, value string) bool) {
	for _, value := range slices.Sorted(maps.Keys(f.notices.pending)) {
		for _, item := range f.notices.pending[value] {
			if !yield(item, value) {
				return
			}
		}
	}
}

// CarriedNotice returns the event that passes an unanswered request for a notice from the previous
// run of a chain, whose ID is before, to its continuation.
func CarriedNotice(item ItemID, value string, before RunID) Event {
	payload, _ := json.Marshal(Notice{Value: value, Checked: string(before)}) // strings always encode
	return Event{Type: MessageReceived, Name: NoticeTopic, Item: item, Payload: payload}
}
