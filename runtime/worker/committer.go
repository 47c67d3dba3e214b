package worker

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/flowgen/flowgen/runtime/internal/flow"
	"github.com/flowgen/flowgen/runtime/internal/localstart"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker/internal/request"
)

const (
	committers  = 2
	commitBatch = 256

	creators    = 2
	createBatch = 256
)

// These constants bound one commit. The store can serve no other request while it writes a commit,
// and each store bounds the length of a frame.
const (
	commitChunks = 1000
	commitBytes  = 4 << 20
	// endingBytes bounds a commit that ends a run, including the cause of the end.
	endingBytes = 64 << 20
)

// commit is a commit of a run that is in flight or being built. A run has at most one commit in
// flight.
type commit struct {
	run     committing
	req     store.Commit
	start   *localStart    // the run that the commit creates; nil if the run exists
	why     string         // why the commit blocks the run; empty if it does not
	differs *flow.Mismatch // how the code differs from the log; nil if it matches
	again   bool           // whether the commit publishes effects.again
	told    int            // number of entries of effects.refusals that the commit publishes
	events  int            // number of entries of effects.unsaved that the commit contains
	took    int            // number of entries of unread.taken that the commit consumes
	read    extent         // the part of unread.read that the commit contains
	answer  store.Committed
	starts  []*attempt // attempts to start once the commit is durable
	cancels []uint64   // steps to cancel once the commit is durable
	opened  []*opening // hooks to return to their callers once the commit is durable
	next    nextClaim
	made    time.Time
}

// localStart is a run that a client of this process starts on this worker. The worker creates the
// run under one of its sessions.
type localStart struct {
	*localstart.Start
	partition int
	session   store.SessionID
	request   store.Create // the request that the worker sends to create the run
}

// committing is the receiver of a commit's answer.
type committing interface {
	// committed receives a commit that contains its answer.
	committed(c *commit)
}

// extent is an amount of inbox content.
type extent struct{ items, bytes int }

// committer sends commits and requests that create runs. It repeats each request until it is
// answered.
type committer struct {
	*env
	silent  func(partition int) bool
	adopt   func(nextClaim, store.Claimed)
	sender  *request.Sender[*commit]
	commits chan *commit
	creates chan *commit
}

func newCommitter(e *env, silent func(partition int) bool, adopt func(nextClaim, store.Claimed)) *committer {
	m := &committer{env: e, silent: silent, adopt: adopt, commits: make(chan *commit, 1024), creates: make(chan *commit, 1024)}
	// After an error the worker cannot determine which commits were applied. It sends the same
	// bytes again. The store answers each commit as it did, or would have done, at the first
	// request.
	m.sender = request.NewSender(request.Params[*commit]{
		Ask:       m.ask,
		GiveUp:    func(c *commit, err error) { m.deliver(c, store.Committed{Err: err}) },
		Partition: func(c *commit) int { return m.partitionOf(c.req.Run) },
		Bytes:     (*commit).bytes,
		Clock:     m.clock, Context: m.io, Last: m.hard.Load, Work: &m.work,
	})
	return m
}

// start starts the goroutines of the committer, which end with the worker.
func (m *committer) start() {
	for range committers {
		m.work.Go(m.commitLoop)
	}
	for range creators {
		m.work.Go(m.createLoop)
	}
}

// commit queues a commit, which may also create its run. If the worker has stopped, the commit is
// never answered.
func (m *committer) commit(c *commit) {
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

// commitLoop sends the commits of many runs in one request. While a request is in flight, the next
// batch is collected.
func (m *committer) commitLoop() {
	var batch []*commit
	for {
		if batch = request.Collect(m.io, m.commits, batch, commitBatch); len(batch) == 0 {
			return
		}
		for _, c := range batch {
			if c.why != "" && !m.silent(m.partitionOf(c.req.Run)) { // the partition would delay the commits of the others
				m.writeWhy(c)
			}
		}
		m.sender.Send(batch)
		clear(batch[:cap(batch)]) // the buffer is reused for the next batch
	}
}

// bytes returns the approximate size of the request.
func (c *commit) bytes() int {
	n := len(c.req.Frame)
	for i := range c.req.Send {
		n += len(c.req.Send[i].Body)
	}
	for i := range c.req.Publish {
		n += len(c.req.Publish[i].Body)
	}
	if c.req.Continue != nil {
		n += len(c.req.Continue.Frame)
	}
	return n
}

// deliver passes the answer to the run, which then owns the commit and may reuse it.
func (m *committer) deliver(c *commit, answer store.Committed) {
	c.answer = answer
	if c.next.lease != nil {
		m.adopt(c.next, answer.Next)
	}
	c.run.committed(c)
	m.activity.End()
}

// commitBuffers pools the slices in which requests are built.
var commitBuffers = sync.Pool{New: func() any { return new([]store.Commit) }}

// ask sends each commit once. It returns the commits whose outcome is unknown.
func (m *committer) ask(batch []*commit) (unknown []*commit, err error) {
	buffer := commitBuffers.Get().(*[]store.Commit)
	defer commitBuffers.Put(buffer)
	requests := (*buffer)[:0]
	for _, c := range batch {
		requests = append(requests, c.req)
	}
	results, err := m.store.Commit(m.io, requests)
	unknown = batch[:0]
	for i, c := range batch {
		answer := store.Committed{Err: err}
		if err == nil {
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

func (m *committer) writeWhy(c *commit) {
	n, ok := store.As[store.StepDataStore](m.store)
	if !ok {
		return
	}
	// The commit does not depend on this write. Only operators read the reason, and the worker's
	// log contains it as well.
	err := n.SetStepData(m.io, c.req.Run, c.req.Fence, flow.BlockedKey, []byte(c.why), false)
	if err == nil && c.differs != nil {
		err = n.SetStepData(m.io, c.req.Run, c.req.Fence, flow.MismatchKey, c.differs.Encode(c.why), false)
	}
	if err != nil {
		m.log.Warn("write why a run is blocked", "run", c.req.Run, "error", err)
	}
}

// createLoop creates runs in batches.
func (m *committer) createLoop() {
	var batch []*commit
	var requests []store.Create
	for {
		if batch = request.Collect(m.io, m.creates, batch, createBatch); len(batch) == 0 {
			return
		}
		requests = m.create(batch, requests[:0])
		clear(batch)
		clear(requests)
	}
}

// create sends the requests once. After an error it is unknown which of the runs exist. Their
// clients receive that answer.
func (m *committer) create(batch []*commit, requests []store.Create) []store.Create {
	sent := batch[:0]
	for _, c := range batch {
		if !c.start.Begin() {
			m.deliver(c, store.Committed{Err: errWithdrawn})
			continue
		}
		requests, sent = append(requests, c.start.request), append(sent, c)
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
		m.deliver(c, store.Committed{Err: errNotKnown})
	}
	return requests
}

// These errors are reasons for which the worker has not created a run.
var (
	errWithdrawn  = errors.New("its client has created it")
	errNotKnown   = errors.New("it is not known whether it was created")
	errNotCreated = errors.New("it was not created, or is not owned by this worker")
)

// answerStart sends the outcome of a start to the client, and returns the corresponding answer to a
// commit.
func answerStart(c *commit, a *store.Created) store.Committed {
	if errors.Is(a.Err, store.ErrExpired) || errors.Is(a.Err, store.ErrNotClaimable) {
		c.start.Answer(localstart.Answer{Declined: true}) // nothing was stored
		return store.Committed{Err: errNotCreated}
	}
	c.start.Answer(localstart.Answer{Created: *a})
	if a.Err != nil || !a.New || a.Fence != c.req.Fence {
		return store.Committed{Err: errNotCreated}
	}
	return store.Committed{N: 1}
}
