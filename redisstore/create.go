package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// Create stores new runs, with pipelined requests. It refuses an invalid run ID, and a run ID whose
// partition differs from the partition of its workflow ID.
func (s *Store) Create(ctx context.Context, runs []store.Create) ([]store.Created, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	buffer, answers := newRuns.take(len(runs)), make([]store.Created, len(runs))
	defer newRuns.give(buffer)
	var keys strings.Builder
	keys.Grow(len(runs) * s.parts[len(s.parts)-1].newSize())
	for i := range runs {
		if answers[i].Err = runs[i].Check(); answers[i].Err != nil {
			continue
		}
		if err := errors.Join(checkStatus(runs[i].Run, runs[i].Status), s.routed(&runs[i])); err != nil {
			return nil, err
		}
		if runs[i].Collect != nil {
			buffer.calls = append(buffer.calls, s.collecting(&runs[i]))
			continue
		}
		buffer.calls = append(buffer.calls, s.creation(&runs[i], &buffer.each[i], &keys))
	}
	calls := buffer.calls
	if err := s.doEach(ctx, calls...); err != nil {
		return nil, fmt.Errorf("create %d runs: %w", len(runs), err)
	}
	for i := range runs {
		if answers[i].Err != nil {
			continue
		}
		answer, err := created(&runs[i], calls[0])
		if err != nil {
			answer = store.Created{Err: fmt.Errorf("create run %s: %w", runs[i].Run, aboutRun(runs[i].Run, calls[0].size, err))}
		}
		answers[i] = answer
		calls = calls[1:]
	}
	if err := unanswered(len(answers), func(i int) error { return answers[i].Err }); err != nil {
		return nil, err
	}
	return answers, nil
}

// routed checks that the run is in the partition of its workflow ID. A workflow ID could not be
// kept unique across partitions.
func (s *Store) routed(c *store.Create) error {
	if _, err := event.ParseRunID(string(c.Run)); err != nil {
		return fmt.Errorf("create run: %w", err)
	}
	if c.WorkflowID != "" && s.partitionOf(c.Run) != s.partitionOfName(c.WorkflowID) {
		return fmt.Errorf("create run %s: its slot is not that of workflow id %q", c.Run, c.WorkflowID)
	}
	if c.RerunOf != "" && s.partitionOf(c.Run) != s.partitionOf(c.RerunOf) {
		return fmt.Errorf("create run %s: it is not in the partition of run %s, which it retries", c.Run, c.RerunOf)
	}
	if c.Collect != nil && s.partitionOf(c.Run) != s.partitionOfName(c.Collect.Key) {
		return fmt.Errorf("create run %s: its slot is not that of the key %q of the starts that share it", c.Run, c.Collect.Key)
	}
	return nil
}

// collecting returns the call of the script that starts or joins a collecting run.
func (s *Store) collecting(c *store.Create) *call {
	p, g, item := s.partitionOf(c.Run), c.Collect, c.Items[0]
	args := arguments{list: []any{
		s.at(), widKey(g.Key), flag(g.Keep, "k"), durationMillis(g.Quiet), durationMillis(g.Most), g.Full, string(item.ID), packItem(item),
		store.Horizon.Milliseconds(),
	}}
	s.describe(&args, c, "", nil)
	return &call{
		script: scriptCollect, p: p, keys: []string{p.meta(short(c.Run))}, args: args.list, size: len(c.Frame) + len(item.Body),
	}
}

// newRun is a call that stores a new run, with buffers for its keys, its arguments and its answer.
type newRun struct {
	call
	keys   [3]string
	args   arguments
	list   [36]any
	texts  [24]string
	header [headerSize]byte
	all    [44]any
}

var newRuns buffers[newRun]

// creation returns the call of the script that stores a new run. The keys of the script are
// substrings of keys.
func (s *Store) creation(c *store.Create, n *newRun, keys *strings.Builder) *call {
	p, run, wid := s.partitionOf(c.Run), short(c.Run), widKey(c.WorkflowID)
	n.args = arguments{list: n.list[:0], texts: n.texts[:0], header: n.header[:0]}
	args := &n.args
	args.text(s.at())
	size := len(c.Frame)
	if wid != "" || !c.Deadline.IsZero() || !c.At.IsZero() || c.Delay > 0 || len(c.Items) > 0 || c.RerunOf != "" {
		args.list = append(args.list,
			terms+2*len(c.Items), deadline(c.Deadline), millis(c.At), max(durationMillis(c.Delay), 0), wid, int(c.Active), int(c.Finished),
			string(c.Cancel.ID), packItem(c.Cancel), packStatus(event.StatusCompleted), short(c.RerunOf),
		)
		for _, item := range c.Items {
			args.text(string(item.ID), packItem(item))
			size += len(item.Body)
		}
	} else {
		args.list = append(args.list, 0)
	}
	all := append(n.keys[:0], joined(keys, p.tag, "m:", run))
	if c.Owner != nil {
		session := sessionCode(c.Owner.Session)
		all = append(all, joined(keys, p.tag, "z:", session), joined(keys, p.tag, "o:", session))
	}
	s.describe(args, c, c.CreatedBy, c.Owner)
	n.call = call{script: scriptCreate, p: p, keys: all, args: args.list, buffer: n.all[:], size: size}
	return &n.call
}

// terms is the number of arguments that contain the conditions and the time of a start. Two more
// arguments follow for each item.
const terms = 10

// describe appends the script arguments that describe a new run and the outbox record that creates
// the run.
func (s *Store) describe(args *arguments, c *store.Create, createdBy event.ItemID, owner *store.Owner) {
	rest := extra{tags: c.Tags}
	wid := widKey(c.WorkflowID)
	if hashed(wid) {
		rest.workflowID = c.WorkflowID
	}
	within, packed := beside, rest.pack()
	if len(packed) <= compactLimit {
		within, packed = packed, ""
	}
	h := header{
		wid: digestOf(c.WorkflowID), queueState: store.StateReady, last: c.CommitID, seq: c.Seq,
		status: cmp.Or(c.Status, event.StatusPending), frames: 1, bytes: len(c.Frame),
	}
	if owner != nil {
		h.queueState, h.fence = store.StateOwned, store.Fence{Epoch: 1, Token: owner.Token}
	}
	if createdBy != "" || c.Collect != nil {
		h.flags |= hasRest
	}
	if len(c.Items) > 0 {
		h.flags |= hasUnread // the script sets this flag for a run that continues another run
	}
	keeps := c.Retention > 0 && c.Retention != store.DefaultRetention
	if keeps {
		h.flags |= hasRetention
	}
	if len(c.Uses) > 0 || c.Fair != "" {
		h.flags |= isLimited
	}
	code, name := s.names.of(c.Route)
	args.text(short(c.Run), code, name)
	args.header = h.append(args.header)
	args.list = append(args.list, (*bytesArg)(&c.Frame), &args.header, c.Priority)
	args.text(packed)
	field := func(name, value string) {
		if value != "" {
			args.text(name, value)
		}
	}
	if len(c.Uses) > 0 || c.Fair != "" { // the script adds the position in the queue
		field("V", packPermits(false, c.Whole, false))
		field("f", packShare(c.Fair, c.Weight()))
	}
	if len(c.Uses) > 0 {
		for name, piece := range piecesOf(packUses(c.Uses)) {
			field(name, piece)
		}
	}
	field("w", wid)
	field("i", within)
	field("B", string(createdBy))
	field("u", string(c.Parent))
	if c.Root == c.Parent && c.Root != "" {
		field("x", "=")
	} else {
		field("x", string(c.Root))
	}
	if keeps {
		field("j", number(durationMillis(c.Retention)))
		if c.Retention%time.Millisecond != 0 {
			field("J", number(int64(c.Retention)))
		}
	}
}

const (
	// compactLimit is the maximum length in bytes of a value in a hash with the compact encoding.
	compactLimit = 64
	// beside marks a run whose tags and long workflow ID are stored in a separate key.
	beside = "+"
)

func created(c *store.Create, call *call) (store.Created, error) {
	if call.err != nil {
		return store.Created{}, call.err
	}
	switch call.reply {
	case int64(1):
		return store.Created{Run: c.Run, New: true}, nil
	case int64(2):
		return store.Created{Run: c.Run, New: true, Fence: c.Owner.Fence()}, nil
	}
	a := call.answer()
	switch a.word() {
	case answerCreated:
		return store.Created{Run: c.Run, New: true, Waits: a.time(1)}, nil
	case refusedTooHeavy:
		u := c.Uses[a.number(1)-1]
		return store.Created{Err: &store.LimitError{Limit: u.LimitID, Weight: u.Weight, AtOnce: int(a.number(2))}}, nil
	case refusedFull:
		return store.Created{Err: &store.StartRefusedError{Limit: c.Uses[a.number(1)-1].LimitID, RetryAfter: time.Duration(a.number(2)) * time.Millisecond}}, nil
	case refusedLater:
		return store.Created{Err: store.ErrNotClaimable}, nil
	case refusedExpired:
		return store.Created{Err: store.ErrExpired}, nil
	case refusedStale:
		return store.Created{Err: store.ErrStale}, nil
	case refusedExisting:
		return store.Created{Run: long(a.text(1))}, nil
	case refusedActive:
		return store.Created{Err: &store.ActiveError{WorkflowID: c.WorkflowID, Run: long(a.text(1))}}, nil
	case refusedFinished:
		return store.Created{Err: &store.FinishedError{
			WorkflowID: c.WorkflowID, Run: long(a.text(1)), Status: statusOf(byte(a.number(2))),
		}}, nil
	}
	return store.Created{}, unexpected(call)
}
