package event

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// A run that waits for a value of another one asks that for a notice, by a message of
// NoticeTopic that no code sees. The other run gives the notice, once, when it has set the value or has
// ended: it says only that it is worth looking again. Who gives a notice to whom, and by which event, follows
// from the log of the run that is asked.

// NoticeTopic is the topic of messages that ask for a notice.
const NoticeTopic = "flowgen.notice"

// Notice is the payload of such a message.
type Notice struct {
	Value string `json:"value"`
	// Checked is what [LogState.NoticeMark] of the run that is asked was when the value was looked
	// for last; empty: it is not known, or it was none.
	Checked string `json:"checked,omitempty"`
}

// noticePrefix begins the ids of items that ask for a notice.
const noticePrefix = "notice:"

// NoticeItem returns the id of the item by which an operation of a run asks for a notice. It names
// the run, so that also one that came too late to be read can be answered.
func NoticeItem(run RunID, key string) ItemID {
	return ItemID(noticePrefix+string(run)+":") + DerivedItemID(run, key)
}

// NoticeFor returns the run that an item asks to give a notice; false if it is another item.
func NoticeFor(item ItemID) (RunID, bool) {
	rest, ok := strings.CutPrefix(string(item), noticePrefix)
	run, _, whole := strings.Cut(rest, ":")
	return RunID(run), ok && whole
}

// notices are what a run was asked for.
type notices struct {
	set     map[string]bool     // values that the log sets
	pending map[string][]ItemID // who waits, by value
	given   map[uint64][]ItemID // by the event that answers
}

// ask takes a message that asks for a notice.
func (f *LogState) ask(e *Event) {
	n := &f.notices
	var asked Notice
	if json.Unmarshal(e.Payload, &asked) != nil { // it is told at once
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

// setValue takes that a value was set.
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

// NoticeMark tells apart the runs of a chain: what those before a run have set is not in its log.
func (f *LogState) NoticeMark() string {
	if f.Spec == nil {
		return ""
	}
	return string(f.Spec.ContinuedOf)
}

// NoticesAt returns the items that event number seq answers.
func (f *LogState) NoticesAt(seq uint64) []ItemID { return f.notices.given[seq] }

// NoticesPending calls yield for each item that nothing in the log has answered, with the value that it
// is about, in the order of their values.
func (f *LogState) NoticesPending(yield func(item ItemID, value string) bool) {
	for _, value := range slices.Sorted(maps.Keys(f.notices.pending)) {
		for _, item := range f.notices.pending[value] {
			if !yield(item, value) {
				return
			}
		}
	}
}

// CarriedNotice returns the event by which a run goes on to owe a notice that the run before it in its
// chain, whose id is before, has not given.
func CarriedNotice(item ItemID, value string, before RunID) Event {
	payload, _ := json.Marshal(Notice{Value: value, Checked: string(before)}) // strings always encode
	return Event{Type: MessageReceived, Name: NoticeTopic, Item: item, Payload: payload}
}
