package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// Commit appends frames and carries out the effects of the commits. It pipelines the scripts of the
// commits, which takes one round trip per node.
func (s *Store) Commit(ctx context.Context, commits []store.Commit) ([]store.Committed, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	buffer := usualCalls.take(len(commits))
	defer usualCalls.give(buffer)
	var keys strings.Builder
	keys.Grow(len(commits) * s.parts[len(s.parts)-1].hotSize())
	for i := range commits {
		if err := errors.Join(commits[i].CheckPublish(), checkStatus(commits[i].Run, commits[i].Status), s.continues(&commits[i])); err != nil {
			return nil, err
		}
		buffer.calls = append(buffer.calls, s.commit(&commits[i], &buffer.each[i], &keys))
	}
	calls := buffer.calls
	err := s.doEach(ctx, calls...)
	if err == nil {
		err = s.commitAgain(ctx, commits, calls)
	}
	if err != nil {
		return nil, fmt.Errorf("write %d commits: %w", len(commits), err)
	}
	answers := make([]store.Committed, len(commits))
	for i, call := range calls {
		answer, err := s.committed(ctx, &commits[i], call)
		if err != nil {
			answer = store.Committed{Err: fmt.Errorf("commit to run %s: %w", commits[i].Run, aboutRun(commits[i].Run, call.size, err))}
		}
		answers[i] = answer
	}
	if err := unanswered(len(answers), func(i int) error { return answers[i].Err }); err != nil {
		return nil, err
	}
	return answers, nil
}

// continues checks the new run of a commit with EffectContinue: it must be able to replace the run
// that the commit ends.
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
	if err := checkStatus(c.Continue.Run, c.Continue.Status); err != nil {
		return fmt.Errorf("continue run %s: %w", c.Run, err)
	}
	if c.Continue.WorkflowID != c.WorkflowID {
		return fmt.Errorf("continue run %s: run %s has workflow id %q, want %q", c.Run, c.Continue.Run, c.Continue.WorkflowID, c.WorkflowID)
	}
	return nil
}

// commitAgain executes the long commit script for each commit that a short script has not carried
// out.
func (s *Store) commitAgain(ctx context.Context, commits []store.Commit, calls []*call) error {
	var again []*call
	for i, c := range calls {
		if n, short := c.reply.(int64); short && n == 0 && c.err == nil {
			calls[i] = s.commitAny(&commits[i])
			again = append(again, calls[i])
		}
	}
	if len(again) == 0 {
		return nil
	}
	return s.doEach(ctx, again...)
}

// usualCall is a call of one of the short commit scripts, with buffers for its keys, arguments and
// answer.
type usualCall struct {
	call
	texts struct{ at, progress string }
	keys  [2]string
	args  [6]any
	all   [12]any
	// guard is the required beginning of the header of the run. The script replaces it by after.
	guard, after [guardSize + 1]byte
	bytes        [3]bytesArg
}

var usualCalls buffers[usualCall]

// commit returns the call for a commit. It uses one of the short scripts if the commit permits it,
// as nearly all commits do. The keys of a short script are substrings of keys, so that they take no
// allocation of their own.
func (s *Store) commit(c *store.Commit, u *usualCall, keys *strings.Builder) *call {
	if c.Frame == nil || c.Next != nil || c.Consume > 0 || len(c.Send) > 0 || len(c.Publish) > 0 || c.Closing || c.HoldBack > 0 || c.FailureGroup != nil || c.Exempt != store.ExemptUnchanged {
		return s.commitAny(c)
	}
	switch {
	case c.Effect == store.EffectNone:
		u.prepare(s, scriptAppend, c, keys)
		u.texts.progress = flag(c.Progress, "p")
		u.call.args = append(u.args[:0], &u.bytes[0], &u.bytes[1], &u.bytes[2], &u.texts.progress)
		return &u.call
	case c.Effect == store.EffectFinish && c.WorkflowID == "" && c.Progress && c.Status != "":
		u.prepare(s, scriptFinish, c, keys)
		u.texts.at = s.at()
		u.call.args = append(u.args[:0], &u.texts.at, &u.bytes[0], &u.bytes[1], &u.bytes[2], &horizonText, &retentionText)
		return &u.call
	}
	return s.commitAny(c)
}

// prepare sets the arguments that both short scripts have: the required beginning of the header,
// its new beginning, and the frame. A new status follows the new beginning as one byte, which is
// omitted if the status does not change.
func (u *usualCall) prepare(s *Store, script *script, c *store.Commit, keys *strings.Builder) {
	p := s.partitionOf(c.Run)
	u.keys[0], u.keys[1] = p.hot(short(c.Run), keys)
	u.call = call{script: script, p: p, keys: u.keys[:], buffer: u.all[:], size: len(c.Frame)}
	now := header{wid: digestOf(c.WorkflowID), queueState: store.StateOwned, fence: c.Fence, last: c.Prev, seq: c.First - 1}
	then := now
	then.last, then.seq = c.CommitID, c.Last
	if script == scriptFinish {
		then.queueState, then.fence.Token = store.StateEnded, event.Token{}
	}
	u.bytes[0], u.bytes[1], u.bytes[2] = now.appendGuard(u.guard[:0]), then.appendGuard(u.after[:0]), c.Frame
	if c.Status != "" {
		u.bytes[1] = append(u.bytes[1], statusByte(c.Status))
	}
}

// Retention periods as script arguments, in milliseconds.
var (
	horizonText   = number(store.Horizon.Milliseconds())
	retentionText = number(store.DefaultRetention.Milliseconds())
)

// commitAny returns the call of the long commit script, which handles any commit.
func (s *Store) commitAny(c *store.Commit) *call {
	p, run := s.partitionOf(c.Run), short(c.Run)
	wid := digestOf(c.WorkflowID)
	call := &call{
		script: scriptCommit, p: p,
		keys: []string{p.meta(run), p.log(run), p.inbox(run)},
		args: []any{
			s.at(), run, widKey(c.WorkflowID), wid[:], packFence(c.Fence), (*cidArg)(&c.Prev), (*bytesArg)(&c.Frame), (*cidArg)(&c.CommitID),
			packNumber(c.First - 1), packNumber(c.Last), max(c.Consume, 0), string(c.ConsumeLast), int(c.Effect), millis(c.Due),
			packStatus(c.Status), exemption(c), closingOrUnused(c), flag(s.cfg.WaitReplicas > 0, "w"),
			store.Horizon.Milliseconds(), store.DefaultRetention.Milliseconds(), len(c.Send), len(c.Publish), c.Held().Microseconds(),
		},
	}
	call.args = append(call.args, labelOf(c)...)
	if c.Next == nil || c.Effect == store.EffectNone {
		call.args = append(call.args, 0)
	} else {
		keys, args := s.claimArgs(p, c.Next)
		call.keys = append(call.keys, keys...)
		call.args = append(append(call.args, len(args)), args...)
	}
	call.size = len(c.Frame)
	for _, r := range c.Send {
		call.args = append(call.args, string(r.ID), string(r.To), r.Body)
		call.size += len(r.Body)
	}
	for i := range c.Publish {
		call.size += len(c.Publish[i].Body)
	}
	call.args = append(call.args, packPublications(c.Publish)...)
	if c.Effect == store.EffectContinue {
		args := arguments{list: call.args}
		s.describe(&args, c.Continue, "", nil)
		call.args = args.list
		call.size += len(c.Continue.Frame)
	}
	return call
}

// exemption returns the script argument with the new exemption of the run. It is "p" if the commit
// reports progress, and empty if the exemption does not change.
func exemption(c *store.Commit) string {
	switch {
	case c.Progress:
		return "p"
	case c.Exempt == store.ExemptUnchanged:
		return ""
	}
	return strconv.Itoa(int(c.Exempt))
}

// closingOrUnused returns the script argument with two meanings: "c" if a run that stays owned is
// closing, or how a run that parks gives back its unused permits. Closing is omitted for a run that
// parks, because the script takes any value for such a run as unused permits.
func closingOrUnused(c *store.Commit) string {
	switch {
	case c.Effect == store.EffectNone:
		return flag(c.Closing, "c")
	case c.Effect != store.EffectPark || c.Unused == store.UnusedNone:
		return ""
	case c.Unused == store.UnusedInQueue:
		return "l"
	}
	return "b"
}

// flag returns name if set is true, and an empty string otherwise. Scripts receive flags in this
// form.
func flag(set bool, name string) string {
	if set {
		return name
	}
	return ""
}

// committed decodes the answer to a commit.
func (s *Store) committed(ctx context.Context, c *store.Commit, call *call) (store.Committed, error) {
	if call.err != nil {
		return store.Committed{}, call.err
	}
	n, _ := call.reply.(int64)
	switch call.script {
	case scriptAppend:
		return store.Committed{N: uint64(n / 2), Unread: n%2 == 1}, nil
	case scriptFinish:
		return store.Committed{N: uint64(n)}, nil
	}
	a := call.answer()
	switch a.word() {
	case answerOK:
		done := store.Committed{N: uint64(a.number(1)), Unread: a.number(2) == 1, Sent: sentBy(c, a.text(3))}
		rest := a[min(len(a), 4):]
		if len(rest) > 0 {
			if claimed, is := rest[0].([]any); is {
				rest = rest[1:]
				// The error is ignored because the commit is durable. The session releases the
				// granted runs that could not be decoded.
				done.Next, _ = s.claimed(ctx, call.p, claimed)
			}
		}
		s.findings(call.p, rest.texts(0))
		return done, nil
	case refusedFenced:
		return store.Committed{Err: store.ErrFenced}, nil
	case refusedUnread:
		return store.Committed{Err: store.ErrUnread}, nil
	case refusedConflict:
		h := unpackHeader(a.text(2))
		return store.Committed{Err: &store.ConflictError{
			Run: c.Run, Seq: c.First, StoredSeq: h.seq, Prev: c.Prev, Stored: h.last, Reason: a.text(1),
		}}, nil
	case refusedWorkflowID:
		want, err := s.workflowIDOf(ctx, c.Run)
		return store.Committed{Err: &store.WorkflowIDMismatchError{Run: c.Run, Got: c.WorkflowID, Want: want}}, err
	}
	return store.Committed{}, unexpected(call)
}

// sentBy returns the records of a commit that are not preceded by an earlier record from the same
// sender to the same receiver. The answer of the script determines them: the records that create
// their receivers and, if the outbox was empty, the first record to each other receiver.
func sentBy(c *store.Commit, said string) (records []store.Outgoing) {
	at, digits, _ := strings.Cut(said, " ")
	if len(digits) != 1+len(c.Send) {
		return nil
	}
	now, to := timeOf(parseNumber(at)), map[event.RunID]bool{}
	for i := range c.Send {
		s := &c.Send[i]
		if (s.First || digits[0] == '1' && !to[s.To]) && digits[1+i] == '1' {
			records = append(records, s.Outgoing(c.Run, now))
		}
		to[s.To] = true
	}
	return records
}

// workflowIDOf reads the workflow ID of a run, which never changes.
func (s *Store) workflowIDOf(ctx context.Context, run event.RunID) (string, error) {
	loaded, err := s.Load(ctx, []store.Load{{Run: run, Limit: -1}})
	if err != nil {
		return "", err
	}
	return loaded[0].Record.WorkflowID, loaded[0].Err
}
