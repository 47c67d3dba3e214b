package check

import (
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/protocol"
)

// bug is a bug that a test injects from outside of the kernel. Its Tx returns wrong results to the
// kernel, or its operation undoes a change of the kernel. The zero value is no bug.
type bug struct {
	tx      func(*tx) protocol.Tx[uint8, uint8]
	after   func(*protocol.Changes[uint8]) // changes the notifications of an operation
	commit  func(*kernel, *tx, *store.Commit) (store.Committed, error)
	deliver func(*kernel, *tx, *store.Deliver) (event.RunID, error)
	forgets bool // heartbeats do not compare the runs of the worker with those of the store
}

type kernel = protocol.Op[uint8, uint8]

func (m *runs) doCommit(c *store.Commit) (store.Committed, error) {
	if m.bug.commit != nil {
		return m.bug.commit(&m.op, &m.tx, c)
	}
	return m.op.Commit(c)
}

func (m *runs) doDeliver(d *store.Deliver) (event.RunID, error) {
	if m.bug.deliver != nil {
		return m.bug.deliver(&m.op, &m.tx, d)
	}
	return m.op.Deliver(d)
}

// homeBug is a bug in the model of limits.
type homeBug struct {
	tx      func(*tx) protocol.Tx[uint8, uint8]
	after   func(operation, *protocol.Changes[uint8])
	tick    func(*home) // an additional change when time passes
	forgets bool        // heartbeats do not compare the runs of the worker with those of the store
	noWake  bool        // a claim that leaves ready runs sets no wake
}
