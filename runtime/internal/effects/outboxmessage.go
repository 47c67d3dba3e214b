package effects

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/permits"
	"github.com/flowgen/flowgen/runtime/store"
)

// OutboxMessage is the body of an outbox record: one effect of a run on another run. Exactly one of
// Start, Item and Rerun is set.
type OutboxMessage struct {
	Start *Start `json:"start,omitempty"`
	Item  *Item  `json:"item,omitempty"`
	// Rerun creates the receiver as the rerun of the failed sender. The sender's log contains
	// everything that is needed for the rerun.
	Rerun bool `json:"rerun,omitempty"`
	// Key is the key of the sender's operation. Answer determines the answer that the sender gets.
	Key    string `json:"key,omitempty"`
	Answer Reply  `json:"answer,omitempty"`
}

// Reply determines which answers the sender of a message gets.
type Reply string

// The values of Reply are as follows.
const (
	// Nothing means that the sender waits for no answer.
	Nothing Reply = ""
	// OnRefusal means that the sender gets an answer only if the message is refused.
	OnRefusal Reply = "refusal"
	// Always means that the sender gets an answer whether the message is accepted or refused.
	Always Reply = "always"
	// Settles is like Always, but the answer also ends the sender's operation, because the started
	// run is not its child.
	Settles Reply = "settles"
)

// Start requests a new run. Everything that is not in Start is in the first frame of the run.
type Start struct {
	Frame    []byte               `json:"frame"`
	Active   store.ActivePolicy   `json:"active,omitempty"`
	Finished store.FinishedPolicy `json:"finished,omitempty"`
}

// Item is an item for an inbox.
type Item struct {
	Scope store.Scope `json:"scope,omitempty"`
	Body  []byte      `json:"body"`
	// Urgent is set if the item is a cancel. A run that waits for permits is then claimed without
	// them.
	Urgent bool `json:"urgent,omitempty"`
	// Pauses is set if the item pauses the run. A paused run does not wait for permits.
	Pauses bool `json:"pauses,omitempty"`
}

// Encode returns the body of a record.
func (p *OutboxMessage) Encode() ([]byte, error) {
	if !p.isOne() {
		return nil, errors.New("encode outbox message: want either a start, an item or a rerun")
	}
	return json.Marshal(p)
}

// DecodeOutboxMessage decodes the result of Encode.
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

// isOne reports whether exactly one of Start, Item and Rerun is set.
func (p *OutboxMessage) isOne() bool {
	n := 0
	for _, set := range []bool{p.Start != nil, p.Item != nil, p.Rerun} {
		if set {
			n++
		}
	}
	return n == 1
}

// Create returns the store request for a record with a Start.
func (p *OutboxMessage) Create(o *store.Outgoing) (store.Create, error) {
	f, err := event.DecodeFrame(p.Start.Frame)
	if err != nil {
		return store.Create{}, fmt.Errorf("start of run %s: %w", o.To, err)
	}
	spec := f.Events[0].Spec
	if spec == nil {
		return store.Create{}, fmt.Errorf("start of run %s: its log does not describe it: %w", o.To, event.ErrCorrupt)
	}
	c := store.Create{
		Run: o.To, WorkflowID: spec.WorkflowID, Active: p.Start.Active, Finished: p.Start.Finished,
		Route: store.Route{Queue: spec.RouteQueue(), Workflow: spec.Workflow}, Priority: spec.Priority, Tags: spec.Tags,
		Parent: spec.Parent, Root: spec.Root, CreatedBy: o.ID, Deadline: o.Deadline,
		Frame: p.Start.Frame, CommitID: f.CommitID, Seq: f.Last(), At: spec.StartAt, Retention: spec.Retention,
	}
	permits.Take(&c, spec)
	if c.Active.Lines() {
		c.Cancel, err = Replaced(o.To)
	}
	return c, err
}

// Replaced returns the cancel that a new run sends to the run that it replaces.
func Replaced(by event.RunID) (store.Item, error) {
	body, err := event.AppendItem(nil, &event.Event{Type: event.CancelRequested, Reason: "replaced by run " + string(by)})
	return store.Item{ID: "cancel:" + event.ItemID(by), Scope: store.ScopeChain, Body: body}, err
}

// Input returns the item that adds the input of a start to the shared run that the start joins. by
// is the caller on whose behalf the start was made.
func Input(start event.RunID, payload []byte, by string) (store.Item, error) {
	body, err := event.AppendItem(nil, &event.Event{Type: event.InputReceived, Payload: payload, By: by})
	return store.Item{ID: "input:" + event.ItemID(start), Scope: store.ScopeRun, Body: body}, err
}

// Deliver returns the store request for a record with an Item.
func (p *OutboxMessage) Deliver(o *store.Outgoing) store.Deliver {
	return store.Deliver{
		Run: o.To, Item: store.Item{ID: o.ID, Scope: p.Item.Scope, Body: p.Item.Body}, Deadline: o.Deadline, Keep: true, Urgent: p.Item.Urgent,
	}
}

// ErrNewer is matched by the error of a record that a newer release has written.
var ErrNewer = errors.New("a newer release wrote it")

// Check returns the reason if no worker of this release can deliver a record, and nil otherwise.
// The error matches ErrNewer if a worker of a newer release may be able to deliver it.
func Check(o *store.Outgoing) error {
	p, err := DecodeOutboxMessage(o.Body)
	if err == nil && p.Start != nil {
		_, err = p.Create(o)
	}
	if err != nil && (errors.As(err, new(*event.VersionError)) || unknownField(o.Body)) {
		return fmt.Errorf("%w: %w", ErrNewer, err)
	}
	return err
}

// unknownField reports whether a body has a field that this release does not define. Damage seldom
// produces such a body, so a newer release has probably written it.
func unknownField(body []byte) bool {
	fields := map[string]json.RawMessage{}
	if json.Unmarshal(body, &fields) != nil {
		return false
	}
	for name := range fields {
		switch name {
		case "start", "item", "rerun", "key", "answer":
		default:
			return true
		}
	}
	return false
}
