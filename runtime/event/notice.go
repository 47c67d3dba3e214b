package event

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// Notices: a run that waits for a value of another run sends that run a message of NoticeTopic. The
// code of the other run does not receive the message. The other run sends one notice when it has
// set the value or has ended. After a notice, the waiting run reads the value again. The log of the
// other run determines which notices it sends, and by which events.

// NoticeTopic is the topic of messages that request a notice.
const NoticeTopic = "flowgen.notice"

// Notice is the payload of a message that requests a notice.
type Notice struct {
	Value string `json:"value"`
	// Checked is the [LogState.NoticeMark] of the other run when the waiting run last read the
	// value. It is empty if the mark is unknown or was empty.
	Checked string `json:"checked,omitempty"`
}

// noticePrefix is the prefix of the IDs of items that request a notice.
const noticePrefix = "notice:"

// NoticeItem returns the ID of the item by which an operation of a run requests a notice. The ID
// contains the run. Therefore a request can be answered even if it arrives too late to be recorded.
func NoticeItem(run RunID, key string) ItemID {
	return ItemID(noticePrefix+string(run)+":") + DerivedItemID(run, key)
}

// NoticeFor returns the run that requests a notice with the given item. ok is false if the item
// does not request a notice.
func NoticeFor(item ItemID) (RunID, bool) {
	rest, ok := strings.CutPrefix(string(item), noticePrefix)
	run, _, whole := strings.Cut(rest, ":")
	return RunID(run), ok && whole
}

// notices are the notices that other runs have requested from a run.
type notices struct {
	set     map[string]bool     // values that the log sets
	pending map[string][]ItemID // unanswered requests of each value
	given   map[uint64][]ItemID // answered requests of each answering event
}

// ask applies a message that requests a notice.
func (f *LogState) ask(e *Event) {
	n := &f.notices
	var asked Notice
	if json.Unmarshal(e.Payload, &asked) != nil { // a request that cannot be decoded is answered at once
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

// setValue records that the log sets a value, and answers the requests for it.
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

// NoticeMark returns a text that differs for each run of a chain. A request whose mark differs is
// answered at once, because an earlier run of the chain may have set the value, and this log does
// not contain it.
func (f *LogState) NoticeMark() string {
	if f.Spec == nil {
		return ""
	}
	return string(f.Spec.ContinuedOf)
}

// NoticesAt returns the requests that event number seq answers.
func (f *LogState) NoticesAt(seq uint64) []ItemID { return f.notices.given[seq] }

// NoticesPending calls yield for each unanswered request and its value, ordered by value.
func (f *LogState) NoticesPending(yield func(item ItemID, value string) bool) {
	if len(f.notices.pending) == 0 {
		return // almost always; without allocating an iterator
	}
	for _, value := range slices.Sorted(maps.Keys(f.notices.pending)) {
		for _, item := range f.notices.pending[value] {
			if !yield(item, value) {
				return
			}
		}
	}
}

// CarriedNotice returns the event by which a continuation takes over an unanswered request from the
// previous run of its chain. before is the ID of the previous run.
func CarriedNotice(item ItemID, value string, before RunID) Event {
	payload, _ := json.Marshal(Notice{Value: value, Checked: string(before)}) // Marshal cannot fail for strings
	return Event{Type: MessageReceived, Name: NoticeTopic, Item: item, Payload: payload}
}
