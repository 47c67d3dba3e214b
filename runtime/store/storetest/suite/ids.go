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

// IDs makes IDs that are unique and the same in every execution. The zero value is ready to use. It
// is safe for concurrent use.
type IDs struct{ n atomic.Uint64 }

// Run returns a run ID of the given time and slot. IDs of one time sort in the order in which they
// were made.
func (i *IDs) Run(now time.Time, slot uint16) event.RunID {
	var u ulid.ULID
	if err := u.SetTime(ulid.Timestamp(now)); err != nil {
		panic(fmt.Sprintf("storetest: run created at %v: %v", now, err))
	}
	binary.BigEndian.PutUint64(u[6:], i.n.Add(1))
	binary.BigEndian.PutUint16(u[14:], slot)
	return event.RunID(event.PrefixRun + "_" + u.String())
}

// CommitID returns the name of a frame.
func (i *IDs) CommitID() event.CommitID {
	var c event.CommitID
	binary.BigEndian.PutUint64(c[8:], i.n.Add(1))
	return c
}

// Token returns the token of a claim.
func (i *IDs) Token() event.Token {
	var t event.Token
	binary.BigEndian.PutUint64(t[:], i.n.Add(1))
	return t
}

// Item returns the ID of an inbox item.
func (i *IDs) Item() event.ItemID { return event.ItemID(fmt.Sprintf("item-%d", i.n.Add(1))) }

// Session returns the ID of a session.
func (i *IDs) Session() store.SessionID {
	return store.SessionID(fmt.Sprintf("session-%d", i.n.Add(1)))
}
