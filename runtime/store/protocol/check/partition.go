package check

import (
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// partition contains the data of a store in plain values, so that it can be copied by assignment
// and compared by ==. A Tx on maps, as in the model of the random histories, would make a step six
// times as expensive.
type partition struct {
	runs       [slots]run
	active     uint8 // active run of the only workflow id
	last       uint8 // last ended run of the workflow id
	line       [2]uint8
	seen, kept [slots]uint16 // sets of items, by the first run of the chain
	leases     [sessions]uint8
	codes      [sessions]uint8
	outbox     [records]record // records in the order of writing
	now        uint8           // present time, in horizons

	// Ghost variables: no operation reads them.
	taken   uint16 // items that the code of purged runs has taken
	created [slots]uint8
}

// The runs are R0, R1 and so on. Their numbers count from 1; 0 means none.
const (
	slots    = 3
	sessions = 5 // numbers 1 to 4 are in use
	records  = 2
	queue    = 4
)

type run struct {
	there                   bool
	named                   bool // the run has the workflow id
	queueState              store.QueueState
	log                     uint16 // log stored by AppendFrame
	last                    uint16 // last record stored by Save, to which the next record must refer
	n                       uint8
	epoch, token, owner     uint8
	inbox                   [queue]uint8
	unread                  uint8 // number of unread items stored by Save
	due                     bool
	created, ended, purge   uint8
	recoveries              uint8
	closing, exempt, hidden bool
	chain, next             uint8
	createdBy               uint8
	status                  uint8
	blockers                uint8 // set of sessions

	// Ghost variables.
	came                 bool  // the due time has passed
	failed               uint8 // set of the sessions that have blocked the run
	lastEpoch, lastToken uint8 // epoch and token of the writer of the last record
}

type record struct {
	id, from, to uint8
	phase        store.Phase
	old          bool // a horizon has passed since the record entered its phase
}

// Numbers of items.
const (
	message1 = 1
	message2 = 2
	cancel   = 3
	hook     = 4 // item for R0 only
	given    = 5 // first item of R2
	start    = 6 // outbox record of R0 that creates R1
	message  = 7 // outbox record of R0 that sends a message to R1
	refusal  = 8 // item that reports a refusal to R0
)

var itemIDs = [...]event.ItemID{"", "m1", "m2", "cancel", "hook", "given", "start", "message", "refusal"}

func item(id event.ItemID) uint8 {
	for i, known := range itemIDs {
		if known == id {
			return uint8(i)
		}
	}
	panic("check: unknown item " + string(id))
}

func scope(item uint8) store.Scope {
	if item == hook {
		return store.ScopeRun
	}
	return store.ScopeChain
}

var runIDs = [...]event.RunID{"", "R0", "R1", "R2"}

func number(id event.RunID) uint8 { return id[1] - '0' + 1 }

var sessionIDs = [...]store.SessionID{"", "S1", "S2", "S3", "S4"}

var statuses = [...]event.Status{"", event.StatusRunning, event.StatusCompleted, event.StatusContinued, event.StatusCanceled}

func (r *run) length() (n uint8) {
	for n < queue && r.inbox[n] != 0 {
		n++
	}
	return n
}

// States of leases.
const (
	leaseNone = 0
	leaseLive = 1
	leaseOver = 2
)

var epoch0 = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// tick returns a time in horizons, counted from 1. It returns 0 for no time.
func tick(ms int64) uint8 {
	if ms == 0 {
		return 0
	}
	return uint8((ms-epoch0.UnixMilli())/store.Horizon.Milliseconds()) + 1
}

func millis(tick uint8) int64 {
	if tick == 0 {
		return 0
	}
	return epoch0.UnixMilli() + int64(tick-1)*store.Horizon.Milliseconds()
}

// dueMillis is the due time of all runs that have one.
var dueMillis = millis(100)
