package admin

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// EntityFilter selects entities of a run. The zero value selects the first 100 of all kinds.
type EntityFilter struct {
	Kinds []string `json:"kinds,omitempty"` // any of them: see [EntityKinds]
	Open  bool     `json:"open,omitempty"`  // that have not ended
	From  uint64   `json:"from,omitempty"`  // the Seq of the first: an [EntityPage] has that of the next page
	Limit int      `json:"limit,omitempty"` // of a page; 0: 100, at most 1,000
}

// Entity is something that a run has begun, as it stands: a step, a wait, a hook, a child, a message to another run, a
// question to this one.
type Entity struct {
	ID      string    `json:"id"`   // as step_, wait_, hook_, chld_, send_, asks_ and 26 characters; it never changes
	Kind    string    `json:"kind"` // one of [EntityKinds]
	Seq     uint64    `json:"seq"`  // of the event with which it began
	Name    string    `json:"name,omitempty"`
	Key     string    `json:"key,omitempty"`
	State   string    `json:"state"`
	Open    bool      `json:"open"`              // it has not ended
	Attempt int       `json:"attempt,omitempty"` // the last that was begun; steps
	Due     time.Time `json:"due,omitzero"`      // of a wait, or of a step's next attempt
	Began   time.Time `json:"began"`
	Changed time.Time `json:"changed"`           // the last event about it
	Failure *Failure  `json:"failure,omitempty"` // of its last attempt, unless it has completed
	Run     string    `json:"run,omitempty"`     // the other run; children and messages
}

// EntityPage is a part of the entities of a run, by their beginning.
type EntityPage struct {
	Entities []Entity `json:"entities"`
	Next     uint64   `json:"next,omitempty"` // where the next page begins; 0: there is none
}

// EntityKinds returns the kinds of entities.
func EntityKinds() []string {
	var all []string
	for _, k := range event.Entities() {
		all = append(all, k.String())
	}
	return all
}

// Entities is part of Service. It reads the log from the first entity on, and keeps no more of it than a page.
func (d *Direct) Entities(ctx context.Context, ref string, f EntityFilter) (EntityPage, error) {
	if err := checkPage("entities", f.Limit, 0, nil); err != nil {
		return EntityPage{}, err
	}
	lives := event.Lives{First: max(f.From, 1), Open: f.Open, Limit: cmp.Or(f.Limit, 100)}
	for _, kind := range f.Kinds {
		k, err := event.ParseEntity(kind)
		if err != nil {
			return EntityPage{}, checkOneOf("kind of entities", kind, EntityKinds())
		}
		lives.Kinds = append(lives.Kinds, k)
	}
	h, info, err := d.find(ctx, ref)
	if err != nil {
		return EntityPage{}, err
	}
	if lives.First <= info.Events {
		for e, err := range h.Events(ctx, workflow.From(lives.First)) {
			if err == nil {
				err = lives.Apply(&e)
			}
			if err != nil {
				return EntityPage{}, fmt.Errorf("read the log of run %s: %w", info.ID, err)
			}
			if e.Seq >= info.Events {
				break
			}
		}
	}
	all, next := lives.All()
	page := EntityPage{Entities: []Entity{}, Next: next}
	for _, o := range all {
		page.Entities = append(page.Entities, entityOf(info.ID, o))
	}
	return page, nil
}

func entityOf(run event.RunID, o *event.Open) Entity {
	e := Entity{
		ID: event.EntityID(run, o.Entity, o.Ref, o.Since), Kind: o.Entity.String(), Seq: o.Ref, Name: o.Name, Key: o.Key, State: o.State.String(), Open: !o.State.Terminal(),
		Attempt: o.Attempt, Due: utc(o.Due), Began: utc(o.Since), Changed: utc(o.Changed), Run: string(o.Next),
	}
	if o.State != event.StateCompleted {
		e.Failure = o.Failure
	}
	return e
}
