package suite

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// IDs makes unique IDs. All executions of a test get the same IDs. The zero value is ready to use.
// An IDs is safe for concurrent use.
type IDs struct{ n atomic.Uint64 }

// Run returns a run ID with the given time and slot. IDs with the same time sort in the order in
// which they were made.
func (i *IDs) Run(now time.Time, slot uint16) event.RunID {
	var u ulid.ULID
	if err := u.SetTime(ulid.Timestamp(now)); err != nil {
		panic(fmt.Sprintf("storetest: run created at %v: %v", now, err))
	}
	binary.BigEndian.PutUint64(u[6:], i.n.Add(1))
	binary.BigEndian.PutUint16(u[14:], slot)
	return event.RunID(event.PrefixRun + "_" + u.String())
}

// CommitID returns a new ID for a commit and its frame.
func (i *IDs) CommitID() event.CommitID {
	var c event.CommitID
	binary.BigEndian.PutUint64(c[8:], i.n.Add(1))
	return c
}

// Token returns a new token for a claim.
func (i *IDs) Token() event.Token {
	var t event.Token
	binary.BigEndian.PutUint64(t[:], i.n.Add(1))
	return t
}

// Item returns a new ID for an inbox item.
func (i *IDs) Item() event.ItemID { return event.ItemID(fmt.Sprintf("item-%d", i.n.Add(1))) }

// Session returns a new ID for a session.
func (i *IDs) Session() store.SessionID {
	return store.SessionID(fmt.Sprintf("session-%d", i.n.Add(1)))
}
