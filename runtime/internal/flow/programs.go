package flow

import (
	"cmp"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/permits"
	"github.com/flowgen/flowgen/runtime/internal/replay"
	"github.com/flowgen/flowgen/runtime/store"
)

// boundProgram is the program of a workflow for one worker. It has no state, so all runs of the
// workflow on the worker share it.
type boundProgram struct {
	client  Engine
	logger  *slog.Logger
	around  *Around
	execute replay.Program
}

// Program returns the code of a workflow, and the last element of the workflow's name. around calls
// the code of users' workflows; nil calls it directly.
func (r *Registry) Program(name string, c Engine, logger *slog.Logger, around *Around) (program replay.Program, short string, ok bool) {
	step, remote := event.StepOfRun(name)
	r.mu.RLock()
	w, s, losers := r.workflows[name], r.steps[step], r.observer.Losers
	r.mu.RUnlock()
	if w == nil && name == event.ScheduleRun {
		w = &boundWorkflow{def: &DefinitionSpec{Name: name}, run: c.ScheduleCode()}
	}
	if event.Internal(name) {
		around = nil
	}
	short = LastName(name)
	switch {
	case remote && s != nil:
		return stepProgram(s.spec), short, true
	case name == event.HookRun:
		return holdToken, short, true
	case name == event.PermitRun:
		return holdPermits, short, true
	case w == nil:
		return nil, "", false
	case w.standIn != nil:
		return standInProgram(w.standIn), short, true
	}
	shared := losers == nil
	if p := w.program.Load(); shared && p != nil && p.client == c && p.logger == logger && p.around == around {
		return p.execute, short, true
	}
	e := &Env{Limits: c.Limits(), Partitions: c.Store().Partitions(), Logger: logger, Children: cmp.Or(w.def.Children, DefaultChildren), Token: r.HookToken}
	program = func(b *replay.Branch, s *replay.Scope, input []byte) replay.Ending {
		if losers != nil {
			b.Run().WatchLosers()
		}
		if end := awaitPermits(b, s); end != nil {
			return *end
		}
		payload, err := execute(NewContext(b, s, e), around, w.run, input)
		if losers != nil {
			losers(name, b.Run().Losers())
		}
		if c, ok := errors.AsType[*Continuation](err); ok && c.Workflow == name {
			return replay.Ending{Type: event.RunContinued, Payload: c.Input, Queue: c.Queue}
		}
		if err != nil {
			return Ending(s, err)
		}
		return replay.Ending{Type: event.RunCompleted, Payload: payload}
	}
	if shared {
		w.program.Store(&boundProgram{c, logger, around, program})
	}
	return program, short, true
}

// LastName returns the last element of a stored name.
func LastName(name string) string { return name[strings.LastIndexByte(name, '.')+1:] }

// A run takes its permits in the action in which a worker claims it. Therefore it must be in the
// partition of its limits. If its workflow ID determines another partition, a child of workflow
// event.PermitRun in the partition of the limits takes the permits, and holds them until the run
// ends.
//
// The code of the run begins when the message of that child is in the log of the run. The message
// is part of a commit of the child's first owner, so the child sends it only when it holds its
// permits. The creation of the child and the message go through outboxes. Therefore each happens
// exactly once, regardless of crashes. When the run ends, it ends the child, like any child. If the
// run has ended earlier, the child's message is refused, which ends the child. [L10, L11]

// grant returns the ID of the message by which the run permits reports that it holds its permits.
func grant(permits event.RunID) event.ItemID { return event.DerivedItemID(permits, event.PermitRun) }

// awaitPermits waits until another run holds the permits for this run. If the permits cannot be
// obtained, it returns how this run ends. A run that is canceled meanwhile ends without executing
// its code, like a run that waits for permits itself.
func awaitPermits(b *replay.Branch, s *replay.Scope) *replay.Ending {
	spec := b.Spec()
	if spec.PermitSlot == 0 {
		return nil
	}
	if s.Err() != nil {
		return new(Ending(s, s.Err()))
	}
	op := b.Child(b.NewScope(nil), event.Event{
		Name: event.PermitRun, Key: event.PermitRun, Active: uint8(store.ActiveFail),
		Spec: &event.Spec{
			Workflow: event.PermitRun, Queue: spec.Queue, Priority: spec.Priority, Retention: spec.Retention, Uses: permits.Fleet(spec.Uses), Whole: true,
		},
	}, uint16(spec.PermitSlot-1), func([]byte) string { return "" })
	cases := []replay.Case{{Topic: event.PermitRun}, {Promise: &op.Promise}}
	if by := b.Run().State().PermitsBy(); !by.IsZero() {
		cases = append(cases, replay.Case{Due: by})
	}
	for {
		won, message, err := b.Select(s, cases)
		switch {
		case err != nil:
			return new(Ending(s, err))
		case won == 1:
			return &replay.Ending{Type: event.RunFailed, Failure: op.Failure}
		case won == 2:
			return &replay.Ending{Type: event.RunFailed, Failure: &event.Failure{
				Code: event.CodeNotStarted, Message: fmt.Sprintf("it did not receive its permits within %v", spec.StartWithin),
			}}
		case message.Item == grant(op.Next): // ignore messages of other senders
			return nil
		}
	}
}

// holdPermits is the code of a run that holds permits for another run. It reports to that run that
// it holds them, and waits until it is canceled.
func holdPermits(b *replay.Branch, s *replay.Scope, _ []byte) replay.Ending {
	self := b.Run().ID()
	refused := b.Send(s, event.PermitRun, event.PermitRun, b.Spec().Parent, grant(self), nil, func([]byte) string { return "" })
	if refused != nil {
		return replay.Ending{Type: event.RunFailed, Failure: refused}
	}
	return holdToken(b, s, nil)
}

// holdToken is the code of a run that holds a token. It waits until the run is canceled.
func holdToken(b *replay.Branch, s *replay.Scope, _ []byte) replay.Ending {
	_, err := b.Receive(s, event.HookRun, time.Time{})
	if err == nil {
		err = errors.New("a token was released by a message")
	}
	return Ending(s, err)
}

// TokenMark separates the run ID from the random part of a token.
const TokenMark = "."

// secret returns the random part of a token.
func secret(event.RunID, string) string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // crypto/rand.Read never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}
