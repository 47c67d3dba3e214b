package admin

import (
	"context"
	"encoding/json"

	"github.com/flowgen/flowgen/runtime/store"
)

// journaled writes the journal around all that changes something. It embeds the service for what only reads: a test calls every method
// as somebody who may nothing, and finds the one that is refused and writes nothing.
type journaled struct {
	Service
	to Recorder
	p  Principal
}

// entry returns an entry of the principal.
func (j *journaled) entry(e JournalEntry) JournalEntry {
	e.Principal, e.Owner, e.Face = j.p.Name, j.p.Owner, j.p.Face
	if e.Face == "" {
		e.Face = FaceProgram
	}
	return e
}

// refused writes what was refused before anything was done. It is refused all the same if it cannot be written.
func (j *journaled) refused(ctx context.Context, e JournalEntry, err error) {
	e.Outcome = outcomeOf(err)
	_ = j.to.Record(ctx, &e)
}

// left returns what of a reason goes on to the service below. takes: what is done has a place for it. Otherwise it stands in
// the entry, which is durable by now; if there is no place for a journal the service below refuses it, for it would be lost.
func left(e *JournalEntry, reason string, takes bool) string {
	if takes || e.ID == "" || store.CheckText("reason", reason, store.MaxJournalText) != nil {
		return reason
	}
	return ""
}

// left returns the message as it goes on to the service below.
func (m Message) left(e *JournalEntry) Message {
	m.Reason = left(e, m.Reason, false)
	return m
}

// Act is part of Service.
func (j *journaled) Act(ctx context.Context, ref string, a Action) (Acted, error) {
	e := j.entry(JournalEntry{Action: a.Verb, Target: ref, Detail: a.Step, Reason: a.Reason, Key: a.Key})
	return recorded(ctx, j, &e, func(ctx context.Context) (Acted, error) {
		a.Reason = left(&e, a.Reason, TakesReason(a.Verb))
		return j.Service.Act(ctx, ref, a)
	},
		func(done Acted, e *JournalEntry) { e.Run, e.New = done.Run, done.New })
}

// Start is part of Service.
func (j *journaled) Start(ctx context.Context, s Start) (Started, error) {
	e := j.entry(JournalEntry{Action: "start", Detail: s.Workflow, Reason: s.Reason, Key: s.Key})
	if s.ID != "" {
		e.Target = byID + s.ID
	}
	return recorded(ctx, j, &e, func(ctx context.Context) (Started, error) {
		s.Reason = left(&e, s.Reason, false)
		return j.Service.Start(ctx, s)
	}, func(got Started, e *JournalEntry) {
		if e.Run = got.Run; got.Created {
			e.New = got.Run
		}
	})
}

// Send is part of Service.
func (j *journaled) Send(ctx context.Context, ref, topic string, m Message) (Sent, error) {
	e := j.entry(JournalEntry{Action: "send", Target: ref, Detail: topic, Reason: m.Reason, Key: m.Key})
	return recorded(ctx, j, &e, func(ctx context.Context) (Sent, error) { return j.Service.Send(ctx, ref, topic, m.left(&e)) },
		func(got Sent, e *JournalEntry) { e.Run = got.Run })
}

// ResumeHook is part of Service.
func (j *journaled) ResumeHook(ctx context.Context, token string, m Message) (Sent, error) {
	e := j.entry(JournalEntry{Action: "resume-hook", Target: HookTarget(token), Reason: m.Reason, Key: m.Key})
	return recorded(ctx, j, &e, func(ctx context.Context) (Sent, error) { return j.Service.ResumeHook(ctx, token, m.left(&e)) },
		func(got Sent, e *JournalEntry) { e.Run = got.Run })
}

// Ask is part of Service.
func (j *journaled) Ask(ctx context.Context, ref, name string, m Message) (Answer, error) {
	e := j.entry(JournalEntry{Action: "ask", Target: ref, Detail: name, Reason: m.Reason, Key: m.Key})
	return recorded(ctx, j, &e, func(ctx context.Context) (Answer, error) { return j.Service.Ask(ctx, ref, name, m.left(&e)) },
		func(got Answer, e *JournalEntry) { e.Run = got.Run })
}

// PutSchedule is part of Service.
func (j *journaled) PutSchedule(ctx context.Context, n NewSchedule) (ScheduleActed, error) {
	e := j.entry(JournalEntry{Action: "put", Target: "schedule:" + n.Name, Detail: n.Workflow, Reason: n.Reason})
	return recorded(ctx, j, &e, func(ctx context.Context) (ScheduleActed, error) {
		n.Reason = left(&e, n.Reason, false)
		return j.Service.PutSchedule(ctx, n)
	}, actedOnSchedule)
}

// ActOnSchedule is part of Service.
func (j *journaled) ActOnSchedule(ctx context.Context, name string, a ScheduleAction) (ScheduleActed, error) {
	e := j.entry(JournalEntry{Action: a.Verb, Target: "schedule:" + name, Reason: a.Reason, Key: a.Key})
	return recorded(ctx, j, &e, func(ctx context.Context) (ScheduleActed, error) {
		a.Reason = left(&e, a.Reason, a.Verb == verbPause)
		return j.Service.ActOnSchedule(ctx, name, a)
	}, actedOnSchedule)
}

func actedOnSchedule(done ScheduleActed, e *JournalEntry) { e.New = done.Run }

// ActOnPool is part of Service.
func (j *journaled) ActOnPool(ctx context.Context, name string, a PoolAction) (PoolActed, error) {
	e := j.entry(JournalEntry{Action: a.Verb, Target: "pool:" + name, Detail: a.Key, Reason: a.Reason})
	if a.Config != nil {
		b, _ := json.Marshal(a.Config) // numbers always encode
		e.Detail = a.Key + string(b)
	}
	return recorded(ctx, j, &e, func(ctx context.Context) (PoolActed, error) {
		a.Reason = left(&e, a.Reason, false)
		return j.Service.ActOnPool(ctx, name, a)
	}, func(PoolActed, *JournalEntry) {})
}

// SaveView is part of Service.
func (j *journaled) SaveView(ctx context.Context, name string, v NewView) (ViewActed, error) {
	e := j.entry(JournalEntry{Action: "save-view", Target: "view:" + name, Detail: v.Filter, Reason: v.Reason})
	return recorded(ctx, j, &e, func(ctx context.Context) (ViewActed, error) {
		v.Reason = left(&e, v.Reason, false)
		return j.Service.SaveView(ctx, name, v)
	}, func(ViewActed, *JournalEntry) {})
}

// DeleteView is part of Service.
func (j *journaled) DeleteView(ctx context.Context, name string, why Because) (ViewActed, error) {
	e := j.entry(JournalEntry{Action: "delete-view", Target: "view:" + name, Reason: why.Reason})
	return recorded(ctx, j, &e, func(ctx context.Context) (ViewActed, error) {
		return j.Service.DeleteView(ctx, name, Because{left(&e, why.Reason, false)})
	}, func(ViewActed, *JournalEntry) {})
}

// StartBulk is part of Service. The token of a preview stands for what it fixes.
func (j *journaled) StartBulk(ctx context.Context, b NewBulk) (Bulk, error) {
	f, a := b.Filter, b.Action
	if p, err := readPreview(b.Token); err == nil {
		f, a = p.Filter, p.Action
	}
	text, _ := json.Marshal(f) // text and times always encode
	e := j.entry(JournalEntry{Action: "bulk", Detail: a.Verb + " " + string(text), Reason: a.Reason, Key: b.Key})
	return recorded(ctx, j, &e, func(ctx context.Context) (Bulk, error) { return j.Service.StartBulk(ctx, b) },
		func(got Bulk, e *JournalEntry) { e.Target, e.Run, e.New = got.ID, got.Run, got.Run })
}

// StopBulk is part of Service.
func (j *journaled) StopBulk(ctx context.Context, id string, why Because) (Bulk, error) {
	e := j.entry(JournalEntry{Action: "stop", Target: id, Reason: why.Reason})
	return recorded(ctx, j, &e, func(ctx context.Context) (Bulk, error) {
		return j.Service.StopBulk(ctx, id, Because{left(&e, why.Reason, false)})
	},
		func(got Bulk, e *JournalEntry) { e.Run = got.Run })
}
