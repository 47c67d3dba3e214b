package effects

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/permits"
	"github.com/flowgen/flowgen/runtime/store"
)

// OutboxMessage is one effect of a run on another one: exactly one of Start, Item and Rerun is
// set.
type OutboxMessage struct {
	Start *Start `json:"start,omitempty"`
	Item  *Item  `json:"item,omitempty"`
	// Rerun says that the receiver is made as the rerun of the sender, which has failed. Its log says the rest.
	Rerun bool `json:"rerun,omitempty"`
	// Key is that of the sender's operation, Answer what it is told about it.
	Key    string `json:"key,omitempty"`
	Answer Reply  `json:"answer,omitempty"`
}

// Reply says what a sender is told.
type Reply string

// The answers.
const (
	// Nothing: nobody waits for it.
	Nothing Reply = ""
	// OnRefusal tells of a refusal only.
	OnRefusal Reply = "refusal"
	// Always tells of both.
	Always Reply = "always"
	// Settles tells of both, and that the sender has nothing more to wait for: the run that was
	// started is no child of it.
	Settles Reply = "settles"
)

// Start is a new run. What else it takes to create it is in its first frame.
type Start struct {
	Frame    []byte               `json:"frame"`
	Active   store.ActivePolicy   `json:"active,omitempty"`
	Finished store.FinishedPolicy `json:"finished,omitempty"`
}

// Item goes into an inbox.
type Item struct {
	Scope store.Scope `json:"scope,omitempty"`
	Body  []byte      `json:"body"`
	// Urgent lets a run that waits for permits go without them: it is asked to end.
	Urgent bool `json:"urgent,omitempty"`
	// Pauses says that it pauses the run, which then waits for no permits.
	Pauses bool `json:"pauses,omitempty"`
}

// Encode returns the body of a record.
func (p *OutboxMessage) Encode() ([]byte, error) {
	if !p.isOne() {
		return nil, errors.New("encode outbox message: want either a start, an item or a rerun")
	}
	return json.Marshal(p)
}

// DecodeOutboxMessage reads what Encode gave.
func DecodeOutboxMessage(b []byte) (*OutboxMessage, error) {
	p := &OutboxMessage{}
	if err := json.Unmarshal(b, p); err != nil {
		return nil, fmt.Errorf("decode outbox message of %d bytes: %w: %w", len(b), err, event.ErrCorrupt)
	}
	if !p.isOne() {
		return nil, fmt.Errorf("decode outbox message of %d bytes: it is not one of a start, an item and a rerun: %w", len(b), event.ErrCorrupt)
	}
	return p, nil
}

// isOne reports whether exactly one of the effects is set.
func (p *OutboxMessage) isOne() bool {
	n := 0
	for _, set := range []bool{p.Start != nil, p.Item != nil, p.Rerun} {
		if set {
			n++
		}
	}
	return n == 1
}

// Create returns the request that a record with a start stands for.
func (p *OutboxMessage) Create(o *store.Outgoing) (store.Create, error) {
	f, err := event.DecodeFrame(p.Start.Frame)
	if err != nil {
		return store.Create{}, fmt.Errorf("start of run %s: %w", o.To, err)
	}
	spec := f.Events[0].Spec
	if spec == nil {
		return store.Create{}, fmt.Errorf("start of run %s: its log does not say what it is: %w", o.To, event.ErrCorrupt)
	}
	c := store.Create{
		Run: o.To, WorkflowID: spec.WorkflowID, Active: p.Start.Active, Finished: p.Start.Finished,
		Route: store.Route{Queue: spec.Queue, Workflow: spec.Workflow}, Priority: spec.Priority, Tags: spec.Tags,
		Parent: spec.Parent, Root: spec.Root, CreatedBy: o.ID, Deadline: o.Deadline,
		Frame: p.Start.Frame, CommitID: f.CommitID, Seq: f.Last(), At: spec.StartAt, Retention: spec.Retention,
	}
	permits.Take(&c, spec)
	if c.Active.Lines() {
		c.Cancel, err = Replaced(o.To)
	}
	return c, err
}

// Replaced returns the item by which a new run asks those before it to end.
func Replaced(by event.RunID) (store.Item, error) {
	body, err := event.AppendItem(nil, &event.Event{Type: event.CancelRequested, Reason: "replaced by run " + string(by)})
	return store.Item{ID: "cancel:" + event.ItemID(by), Scope: store.ScopeChain, Body: body}, err
}

// Input returns the item by which a start that shares a run with others brings its input, on behalf of whom.
func Input(start event.RunID, payload []byte, by string) (store.Item, error) {
	body, err := event.AppendItem(nil, &event.Event{Type: event.InputReceived, Payload: payload, By: by})
	return store.Item{ID: "input:" + event.ItemID(start), Scope: store.ScopeRun, Body: body}, err
}

// Deliver returns the request that a record with an item stands for.
func (p *OutboxMessage) Deliver(o *store.Outgoing) store.Deliver {
	return store.Deliver{
		Run: o.To, Item: store.Item{ID: o.ID, Scope: p.Item.Scope, Body: p.Item.Body}, Deadline: o.Deadline, Keep: true, Urgent: p.Item.Urgent,
	}
}
