package redisstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// Commit appends frames and carries out effects, pipelined: one round trip for
// all commits of a node.
func (s *Store) Commit(ctx context.Context, commits []store.Commit) ([]store.Committed, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	calls := make([]*call, len(commits))
	for i := range commits {
		if err := errors.Join(commits[i].CheckPublish(), s.continues(&commits[i])); err != nil {
			return nil, err
		}
		calls[i] = s.commit(&commits[i])
	}
	if err := s.doReplicated(ctx, calls...); err != nil {
		return nil, fmt.Errorf("write %d commits: %w", len(commits), err)
	}
	if err := s.commitAgain(ctx, commits, calls); err != nil {
		return nil, fmt.Errorf("write %d commits: %w", len(commits), err)
	}
	answers := make([]store.Committed, len(commits))
	for i, call := range calls {
		answer, err := s.committed(ctx, &commits[i], call)
		if err != nil {
			return nil, fmt.Errorf("commit to run %s: %w", commits[i].Run, err)
		}
		answers[i] = answer
	}
	return answers, nil
}

// continues checks that the run that a commit continues as will be in the place of
// the one that it ends.
func (s *Store) continues(c *store.Commit) error {
	if c.Effect != store.EffectContinue {
		return nil
	}
	if c.Continue == nil {
		return fmt.Errorf("continue run %s: the commit has no new run", c.Run)
	}
	if _, err := event.ParseRunID(string(c.Continue.Run)); err != nil {
		return fmt.Errorf("continue run %s: %w", c.Run, err)
	}
	if s.partitionOf(c.Continue.Run) != s.partitionOf(c.Run) {
		return fmt.Errorf("continue run %s: the slot of run %s is not that of its chain", c.Run, c.Continue.Run)
	}
	if c.Continue.WorkflowID != c.WorkflowID {
		return fmt.Errorf("continue run %s: run %s has workflow id %q, want %q", c.Run, c.Continue.Run, c.Continue.WorkflowID, c.WorkflowID)
	}
	return nil
}

// commitAgain asks the script for all commits where one for the most common ones has
// not done it.
func (s *Store) commitAgain(ctx context.Context, commits []store.Commit, calls []*call) error {
	var again []*call
	for i, c := range calls {
		if n, short := c.reply.(int64); short && n == 0 {
			calls[i] = s.commitAny(&commits[i])
			again = append(again, calls[i])
		}
	}
	if len(again) == 0 {
		return nil
	}
	return s.doReplicated(ctx, again...)
}

// commit returns the script of a commit: a shorter one for what nearly all are.
func (s *Store) commit(c *store.Commit) *call {
	if c.Frame == nil || c.Consume > 0 || len(c.Send) > 0 || len(c.Publish) > 0 || c.Closing {
		return s.commitAny(c)
	}
	p, run := s.partitionOf(c.Run), short(c.Run)
	switch {
	case c.Effect == store.EffectNone:
		return &call{
			script: scriptAppend, p: p, keys: []string{p.meta(run), p.log(run), p.inbox(run)},
			args: []any{
				c.Fence.Epoch, c.Fence.Token[:], c.Prev[:], c.Frame, c.CID[:], c.First, c.Last, widKey(c.WorkflowID),
				packStatus(c.Status), flag(c.Progress, "p"), p.frames(run),
			},
		}
	case c.Effect == store.EffectFinish && c.WorkflowID == "" && c.Progress && c.Status != "":
		return &call{
			script: scriptFinish, p: p,
			keys: []string{p.meta(run), p.log(run), p.inbox(run), p.notes(run), p.open(), p.done(), p.purges(), p.sent(run)},
			args: []any{
				s.at(), run, c.Fence.Epoch, c.Fence.Token[:], c.Prev[:], c.Frame, c.CID[:], c.First, c.Last, packStatus(c.Status),
				store.Horizon.Milliseconds(), store.DefaultRetention.Milliseconds(), p.frames(run),
			},
		}
	}
	return s.commitAny(c)
}

// commitAny returns the script of any commit.
func (s *Store) commitAny(c *store.Commit) *call {
	p, run := s.partitionOf(c.Run), short(c.Run)
	call := &call{
		script: scriptCommit, p: p,
		keys: []string{p.meta(run), p.log(run), p.inbox(run), p.notes(run), p.open(), p.done()},
		args: []any{
			s.at(), run, widKey(c.WorkflowID), c.Fence.Epoch, c.Fence.Token[:], c.Prev[:], c.Frame, c.CID[:],
			c.First, c.Last, max(c.Consume, 0), string(c.ConsumeLast), int(c.Effect), millis(c.Due), c.Fit,
			packStatus(c.Status), flag(c.Progress, "p"), flag(c.Closing, "c"), flag(s.cfg.WaitReplicas > 0, "w"),
			store.Horizon.Milliseconds(), store.DefaultRetention.Milliseconds(), len(c.Send), len(c.Publish),
		},
	}
	for _, r := range c.Send {
		call.args = append(call.args, string(r.ID), string(r.To), r.Body)
	}
	call.args = append(call.args, packPublications(c.Publish)...)
	if c.Effect == store.EffectContinue {
		call.args = append(call.args, s.described(c.Continue, "")...)
	}
	return call
}

// flag is how a script is told that something is so.
func flag(set bool, name string) string {
	if set {
		return name
	}
	return ""
}

func (s *Store) committed(ctx context.Context, c *store.Commit, call *call) (store.Committed, error) {
	n, _ := call.reply.(int64)
	switch call.script {
	case scriptAppend:
		return store.Committed{N: uint64(n / 2), Mail: n%2 == 1}, nil
	case scriptFinish:
		return store.Committed{N: uint64(n)}, nil
	}
	a := call.answer()
	switch a.word() {
	case "ok":
		return store.Committed{N: uint64(a.number(1)), Mail: a.number(2) == 1}, nil
	case "fenced":
		return store.Committed{Err: store.ErrFenced}, nil
	case "mail":
		return store.Committed{Err: store.ErrMail}, nil
	case "conflict":
		e := &store.ConflictError{Run: c.Run, Seq: c.First, StoredSeq: uint64(a.number(2)), Prev: c.Prev, Reason: a.text(1)}
		copy(e.Stored[:], a.text(3))
		return store.Committed{Err: e}, nil
	case "workflow id":
		want, err := s.workflowIDOf(ctx, c.Run)
		return store.Committed{Err: &store.WorkflowIDMismatchError{Run: c.Run, Got: c.WorkflowID, Want: want}}, err
	}
	return store.Committed{}, unexpected(call)
}

// workflowIDOf reads the workflow id of a run, which never changes.
func (s *Store) workflowIDOf(ctx context.Context, run event.RunID) (string, error) {
	loaded, err := s.Load(ctx, []store.Load{{Run: run, Limit: -1}})
	if err != nil {
		return "", err
	}
	return loaded[0].Record.WorkflowID, loaded[0].Err
}
