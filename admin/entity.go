package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// EntityFilter selects entities of a run. The zero value selects the first 100 of all kinds.
type EntityFilter struct {
	Kinds []string `json:"kinds,omitempty"` // any of these kinds; see [EntityKinds]
	Open  bool     `json:"open,omitempty"`  // selects only entities that have not ended
	From  uint64   `json:"from,omitempty"`  // Seq of the first entity; set it to EntityPage.Next for the next page
	Limit int      `json:"limit,omitempty"` // entries per page; 0 means 100, the maximum is 1,000
}

// Entity is the state of an operation that a run has begun. It is a step, a wait, a hook, a child,
// a message to another run, or a request to this run.
type Entity struct {
	ID      string    `json:"id"`   // step_, wait_, hook_, chld_, send_ or asks_, followed by 26 characters; never changes
	Kind    string    `json:"kind"` // one of [EntityKinds]; the kind of a step that another run executes is step
	Seq     uint64    `json:"seq"`  // number of its first event
	Name    string    `json:"name,omitempty"`
	Key     string    `json:"key,omitempty"`
	State   string    `json:"state"`
	Open    bool      `json:"open"`              // whether the operation has not ended
	Attempt int       `json:"attempt,omitempty"` // number of the latest attempt of a step
	Due     time.Time `json:"due,omitzero"`      // time at which a wait ends or the next attempt of a step begins
	Began   time.Time `json:"began"`
	Changed time.Time `json:"changed"`           // time of its last event
	Failure *Failure  `json:"failure,omitempty"` // failure of the last attempt, unless the operation has completed
	Run     string    `json:"run,omitempty"`     // the child, the recipient of the message, or the run that executes the step
}

// EntityPage is a page of the entities of a run, in the order of their first events.
type EntityPage struct {
	Entities []Entity `json:"entities"`
	Next     uint64   `json:"next,omitempty"` // value of EntityFilter.From for the next page; 0 on the last page
}

// StepOf returns the name of the step that a run with the given workflow executes for its parent.
// It returns false if the workflow does not belong to the runtime.
func StepOf(workflow string) (step string, ok bool) { return event.StepOfRun(workflow) }

// EntityKinds returns the kinds of entities.
func EntityKinds() []string {
	var all []string
	for _, k := range event.Entities() {
		all = append(all, k.String())
	}
	return all
}

// Entities returns a page of the operations that a run has begun, such as its steps, with their
// present state. It reads the whole log of the run, but holds only one page in memory.
func (s *Service) Entities(ctx context.Context, ref string, f EntityFilter) (EntityPage, error) {
	ref, err := s.own(ctx, ref)
	if err != nil {
		return EntityPage{}, err
	}
	page, err := s.entities(ctx, ref, f)
	veil(s.who, &page)
	if !s.who.Role.Allows(RolePayloads) {
		for i := range page.Entities {
			page.Entities[i].Failure = withoutData(page.Entities[i].Failure)
		}
	}
	return page, err
}

// entities is like [Service.Entities], but does not check the rights of the principal.
func (s *Service) entities(ctx context.Context, ref string, f EntityFilter) (EntityPage, error) {
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
	h, info, err := s.find(ctx, ref)
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
	return page, s.fillSteps(ctx, page.Entities)
}

// maxAttemptEvents is the maximum number of events that are read from the log of a run that
// executes a step. Each attempt has only a few events.
const maxAttemptEvents = 1000

// fillSteps adds the attempts of steps that other runs execute. It reads the logs of these runs.
func (s *Service) fillSteps(ctx context.Context, all []Entity) error {
	var steps []*Entity
	var runs []workflow.RunID
	for i := range all {
		if name, is := event.StepOfRun(all[i].Name); is && all[i].Kind == event.EntityStep.String() {
			all[i].Name = name
			steps, runs = append(steps, &all[i]), append(runs, workflow.RunID(all[i].Run))
		}
	}
	if len(runs) == 0 {
		return nil
	}
	infos, errs := s.client.Infos(ctx, runs...)
	for i, e := range steps {
		if errors.Is(errs[i], workflow.ErrRunNotFound) { // the run has not been created yet, or it was purged
			continue
		}
		if errs[i] != nil {
			return errs[i]
		}
		events, err := s.client.Run(runs[i]).ReadEvents(ctx, 1, int(min(infos[i].Events, maxAttemptEvents)))
		if err != nil {
			return err
		}
		lives := event.Lives{Kinds: []event.Entity{event.EntityStep}}
		for k := range events {
			if err := lives.Apply(&events[k]); err != nil {
				return fmt.Errorf("read the log of step %s: %w", e.ID, err)
			}
		}
		if own, _ := lives.All(); len(own) > 0 {
			e.attempts(own[0])
		}
	}
	return nil
}

// attempts copies the number of attempts from own, which is the step in the log of the run that
// executes it. While the entity is open, attempts also copies the state, the times and the failure.
// After the entity has ended, these data come from the log of its own run.
func (e *Entity) attempts(own *event.Open) {
	e.Attempt = own.Attempt
	if !e.Open {
		return
	}
	e.State, e.Due, e.Changed = own.State.String(), utc(own.Due), utc(own.Changed)
	if own.State != event.StateCompleted {
		e.Failure = own.Failure
	}
}

func entityOf(run event.RunID, o *event.Open) Entity {
	e := Entity{
		ID: event.EntityID(run, o.Entity, o.Ref, o.Since), Kind: event.KindOf(o.Entity, o.Name).String(), Seq: o.Ref, Name: o.Name, Key: o.Key, State: o.State.String(), Open: !o.State.Terminal(),
		Attempt: o.Attempt, Due: utc(o.Due), Began: utc(o.Since), Changed: utc(o.Changed), Run: string(o.Next),
	}
	if o.State != event.StateCompleted {
		e.Failure = o.Failure
	}
	return e
}
