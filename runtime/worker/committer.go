package worker

import (
	"errors"
	"fmt"
	"sync"

	"github.com/flowgen/flowgen/runtime/internal/flow"
	"github.com/flowgen/flowgen/runtime/internal/localstart"
	"github.com/flowgen/flowgen/runtime/internal/runloop"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker/internal/request"
)

const (
	committers  = 2
	commitBatch = 256

	creators    = 2
	createBatch = 256
)

// sending is a commit of a run that is in flight.
type sending struct {
	*runloop.Commit
	by      committing
	start   *localstart.Start // the run that the commit creates; nil if the run exists
	session store.SessionID   // session that owns the created run
	next    nextClaim
}

func (c *sending) creation() store.Create {
	r := c.start.Create
	r.Frame, r.CommitID, r.Seq, r.Status = c.Req.Frame, c.Req.CommitID, c.Req.Last, c.Req.Status
	r.Owner = &store.Owner{Session: c.session, Token: c.Req.Fence.Token}
	return r
}

// committing is the receiver of a commit's answer.
type committing interface {
	// committed receives a commit that contains its answer.
	committed(c *runloop.Commit)
}

// committer sends commits and requests that create runs. It repeats each request until it is
// answered.
type committer struct {
	*env
	silent  func(partition int) bool
	adopt   func(nextClaim, store.Claimed)
	sender  *request.Sender[sending]
	commits chan sending
	creates chan sending
}

func newCommitter(e *env, silent func(partition int) bool, adopt func(nextClaim, store.Claimed)) *committer {
	m := &committer{env: e, silent: silent, adopt: adopt, commits: make(chan sending, 1024), creates: make(chan sending, 1024)}
	// After an error the worker cannot determine which commits were applied. It sends the same
	// bytes again. The store answers each commit as it did, or would have done, at the first
	// request.
	m.sender = request.NewSender(request.Params[sending]{
		Ask:       m.ask,
		GiveUp:    func(c sending, err error) { m.deliver(c, store.Committed{Err: err}) },
		Partition: func(c sending) int { return m.partitionOf(c.Req.Run) },
		Bytes:     sending.Bytes,
		Clock:     m.clock, Context: m.io, Last: m.hard.Load, Work: &m.work,
	})
	return m
}

// start starts the goroutines of the committer, which end with the worker.
func (m *committer) start() {
	for range committers {
		m.work.Go(func() { request.Serve(m.io, m.commits, commitBatch, m.send) })
	}
	for range creators {
		var requests []store.Create // buffer of the goroutine
		m.work.Go(func() {
			request.Serve(m.io, m.creates, createBatch, func(batch []sending) {
				requests = m.create(batch, requests[:0])
				clear(requests)
			})
		})
	}
}

// commit queues a commit, which may also create its run. If the worker has stopped, the commit is
// never answered.
func (m *committer) commit(c sending) {
	to := m.commits
	if c.start != nil {
		to = m.creates
	}
	m.activity.Begin()
	select {
	case to <- c:
	case <-m.io.Done():
	}
}

// send sends the commits of many runs in one request.
func (m *committer) send(batch []sending) {
	for _, c := range batch {
		if c.Why != "" && !m.silent(m.partitionOf(c.Req.Run)) { // the partition would delay the commits of the others
			m.writeWhy(c)
		}
	}
	m.sender.Send(batch)
}

// deliver passes the answer to the run, which then owns the commit and may reuse it.
func (m *committer) deliver(c sending, answer store.Committed) {
	c.Answer = answer
	if c.start != nil {
		m.creating.Add(-1)
	}
	if c.next.lease != nil {
		c.next.lease.OnClaimed(answer.Err)
		m.adopt(c.next, answer.Next)
	}
	c.by.committed(c.Commit)
	m.activity.End()
}

// commitBuffers pools the slices in which requests are built.
var commitBuffers = sync.Pool{New: func() any { return new([]store.Commit) }}

// ask sends each commit once. It returns the commits whose outcome is unknown.
func (m *committer) ask(batch []sending) (unknown []sending, err error) {
	buffer := commitBuffers.Get().(*[]store.Commit)
	defer commitBuffers.Put(buffer)
	requests := (*buffer)[:0]
	for _, c := range batch {
		requests = append(requests, c.Req)
	}
	results, failed := m.store.Commit(m.io, requests)
	unknown = batch[:0]
	for i, c := range batch {
		answer := store.Committed{Err: failed}
		if failed == nil {
			answer = results[i]
		}
		if store.Unknown(answer.Err) {
			unknown, err = append(unknown, c), answer.Err
			continue
		}
		m.deliver(c, answer)
	}
	clear(requests)
	*buffer = requests
	return unknown, err
}

func (m *committer) writeWhy(c sending) {
	n, ok := store.As[store.StepDataStore](m.store)
	if !ok {
		return
	}
	// The commit does not depend on this write. Only operators read the reason, and the worker's
	// log contains it as well.
	err := n.SetStepData(m.io, c.Req.Run, c.Req.Fence, flow.BlockedKey, []byte(c.Why), false)
	if err == nil && c.Differs != nil {
		err = n.SetStepData(m.io, c.Req.Run, c.Req.Fence, flow.MismatchKey, c.Differs.Encode(c.Why), false)
	}
	if err != nil {
		m.log.Warn("write why a run is blocked", "run", c.Req.Run, "error", err)
	}
}

// create sends the requests once. After an error it is unknown which of the runs exist. Their
// clients receive that answer.
func (m *committer) create(batch []sending, requests []store.Create) []store.Create {
	sent := batch[:0]
	for _, c := range batch {
		if !c.start.Begin() {
			m.deliver(c, store.Committed{Err: runloop.ErrWithdrawn})
			continue
		}
		requests, sent = append(requests, c.creation()), append(sent, c)
	}
	if len(sent) == 0 {
		return requests
	}
	created, err := m.store.Create(m.io, requests)
	for i, c := range sent {
		unknown := err
		if err == nil && store.Unknown(created[i].Err) {
			unknown = created[i].Err
		}
		if unknown == nil {
			m.deliver(c, answerStart(c, &created[i]))
			continue
		}
		if m.io.Err() != nil {
			unknown = fmt.Errorf("%w: %v", ErrStopping, unknown) //nolint:errorlint // it is not the context of the caller that has ended
		}
		c.start.Answer(localstart.Answer{Err: unknown})
		m.deliver(c, store.Committed{Err: runloop.ErrNotKnown})
	}
	return requests
}

// errNotCreated is the reason for which the worker does not own a run that it has tried to create.
var errNotCreated = errors.New("it was not created, or is not owned by this worker")

// answerStart sends the outcome of a start to the client, and returns the corresponding answer to a
// commit.
func answerStart(c sending, a *store.Created) store.Committed {
	if errors.Is(a.Err, store.ErrExpired) || errors.Is(a.Err, store.ErrNotClaimable) {
		c.start.Answer(localstart.Answer{Declined: true}) // nothing was stored
		return store.Committed{Err: errNotCreated}
	}
	c.start.Answer(localstart.Answer{Created: *a})
	if a.Err != nil || !a.New || a.Fence != c.Req.Fence {
		return store.Committed{Err: errNotCreated}
	}
	return store.Committed{N: 1}
}
