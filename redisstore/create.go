package redisstore

import (
	"context"
	"fmt"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// Create stores new runs, pipelined. A run whose id is not a run id is refused
// with an error, and so is one whose slot is not that of its workflow id.
func (s *Store) Create(ctx context.Context, runs []store.Create) ([]store.Created, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	calls := make([]*call, len(runs))
	for i := range runs {
		if err := s.routed(&runs[i]); err != nil {
			return nil, err
		}
		calls[i] = s.creation(&runs[i])
	}
	if err := s.doReplicated(ctx, calls...); err != nil {
		return nil, fmt.Errorf("create %d runs: %w", len(runs), err)
	}
	answers := make([]store.Created, len(runs))
	for i, c := range calls {
		var err error
		if answers[i], err = created(&runs[i], c); err != nil {
			return nil, fmt.Errorf("create run %s: %w", runs[i].Run, err)
		}
	}
	return answers, nil
}

// routed checks that the run will be in the partition in which its workflow id
// is decided: two partitions cannot keep one workflow id unique.
func (s *Store) routed(c *store.Create) error {
	if _, err := event.ParseRunID(string(c.Run)); err != nil {
		return fmt.Errorf("create run: %w", err)
	}
	if c.WorkflowID != "" && s.partitionOf(c.Run) != s.partitionOfName(c.WorkflowID) {
		return fmt.Errorf("create run %s: its slot is not that of workflow id %q", c.Run, c.WorkflowID)
	}
	if c.Chain != "" && s.partitionOf(c.Run) != s.partitionOf(c.Chain) {
		return fmt.Errorf("create run %s: its slot is not that of its chain %s", c.Run, c.Chain)
	}
	return nil
}

// creation returns the script that stores a run.
func (s *Store) creation(c *store.Create) *call {
	p, run, class, wid := s.partitionOf(c.Run), short(c.Run), s.names.codeOf(c.Class), widKey(c.WorkflowID)
	fields := []any{}
	field := func(name, value string) {
		if value != "" {
			fields = append(fields, name, value)
		}
	}
	field("w", wid)
	chain := ""
	if c.Chain != c.Run {
		chain = short(c.Chain)
	}
	field("u", string(c.Parent))
	if c.Root == c.Parent && c.Root != "" {
		field("x", "=")
	} else {
		field("x", string(c.Root))
	}
	if c.Retention > 0 && c.Retention != store.DefaultRetention {
		field("j", number(durationMillis(c.Retention)))
		if c.Retention%time.Millisecond != 0 {
			field("J", number(int64(c.Retention)))
		}
	}
	rest := extra{tags: c.Tags}
	if hashed(wid) {
		rest.workflowID = c.WorkflowID
	}
	packed := rest.pack()
	if packed != "" && len(packed) <= compactLimit {
		field("i", packed)
		packed = ""
	} else if packed != "" {
		field("i", beside)
	}
	return &call{
		script: scriptCreate, p: p,
		keys: []string{p.meta(run), p.log(run), p.open(), p.classes(), p.active(), p.latest(), p.line(wid), p.extra(run),
			p.hidden(run), p.chains()},
		args: append([]any{
			s.at(), run, class, className(c.Class), c.Frame, c.Seq, c.CID[:], c.Priority,
			millis(c.At), max(durationMillis(c.Delay), 0), wid, int(c.Active), int(c.Finished),
			string(c.Cancel.ID), packItem(c.Cancel), packed, packStatus(event.StatusPending), packStatus(event.StatusCompleted),
			chain,
		}, fields...),
	}
}

const (
	// compactLimit is the longest value that leaves a hash in its compact form.
	compactLimit = 64
	// beside says that the extra of a run is a key of its own.
	beside = "+"
)

func created(c *store.Create, call *call) (store.Created, error) {
	a := call.answer()
	switch a.word() {
	case "created":
		return store.Created{Run: c.Run, New: true}, nil
	case "existing":
		return store.Created{Run: long(a.text(1))}, nil
	case "active":
		return store.Created{Err: &store.ActiveError{WorkflowID: c.WorkflowID, Run: long(a.text(1))}}, nil
	case "refused":
		return store.Created{Err: &store.FinishedError{
			WorkflowID: c.WorkflowID, Run: long(a.text(1)), Status: unpackStatus(a.text(2)),
		}}, nil
	}
	return store.Created{}, unexpected(call)
}
