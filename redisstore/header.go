package redisstore

import (
	"encoding/binary"
	"hash/fnv"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// header holds the state of a run that nearly every operation compares or changes. It is the
// first field of the metadata, and one value of 63 bytes, numbers with the highest byte first:
//
//	 1- 8  digest of the workflow id, zeros: it has none
//	 9     queue state, as a digit
//	10-17  token of the owner, zeros: nobody owns it
//	18-25  epoch
//	26-41  cid of the last frame
//	42-49  last event
//	50     status, as its place in statuses
//	51     flags, below
//	52-53  recoveries since the last progress, 65535 at most
//	54-57  number of frames
//	58-63  bytes of all frames
//
// What a commit is guarded by comes first and in one piece, and so does the fence in it:
// the owner of the run knows these bytes, so that a script compares one text. After them
// comes the state that only the server knows. lua/part/header.lua has the functions of
// scripts for a header; the shortest ones count the bytes themselves.
//
// What else belongs to the queue state of a run is field p: where it comes among those that are
// ready, its session, when it is due ('0': never), when it ended.
// It is overwritten with each move, so that nothing has to be removed.
type header struct {
	wid        digest
	queueState store.QueueState
	fence      store.Fence
	last       event.CommitID
	seq        uint64
	status     event.Status
	flags      byte
	recoveries int
	frames     uint64
	bytes      int
}

const (
	headerSize = 63
	guardSize  = 49 // of what a commit is guarded by
	fenceFrom  = 8  // where the queue state, the token and the epoch begin
	fenceSize  = 17
)

// Flags of a header. Without any, a run needs no more than the shortest scripts do.
const (
	hasUnread       = 1 << iota // there is something in its inbox
	isWatched                   // field y says until when somebody watches
	hasRest                     // there may be more to do at its end: step data, records, the record that created it, the key of which it gathers starts, followers of its streams
	hasRetention                // field j says how long it is kept
	isClosing                   // its senders are told to come later
	hasIncompatible             // field F says who could not replay it
	isExempt                    // while it is owned: the end of its session is not counted
	isLimited                   // fields U, f and V say what limits it uses, its fair key, and what it has of them
)

// digest is a workflow id in eight bytes: enough to notice that a commit names another one
// than that of its run. It is zero only for none.
type digest [8]byte

func digestOf(workflowID string) (d digest) {
	if workflowID != "" {
		h := fnv.New64a()
		_, _ = h.Write([]byte(workflowID)) // never fails
		binary.BigEndian.PutUint64(d[:], h.Sum64()|1)
	}
	return d
}

// packFence returns what a script compares that only the owner may use.
func packFence(f store.Fence) []byte {
	owned := header{queueState: store.StateOwned, fence: f}
	return owned.appendGuard(make([]byte, 0, guardSize))[fenceFrom : fenceFrom+fenceSize]
}

// packNumber returns a number as it is in a header.
func packNumber(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

// pack returns the header as it is stored.
func (h *header) pack() string {
	b := h.appendGuard(make([]byte, 0, headerSize))
	b = append(b, statusByte(h.status), h.flags)
	b = binary.BigEndian.AppendUint16(b, uint16(min(h.recoveries, 1<<16-1)))
	b = binary.BigEndian.AppendUint32(b, uint32(h.frames))
	b = binary.BigEndian.AppendUint16(b, uint16(h.bytes>>32))
	return string(binary.BigEndian.AppendUint32(b, uint32(h.bytes)))
}

// appendGuard appends what a commit is guarded by.
func (h *header) appendGuard(b []byte) []byte {
	b = append(append(b, h.wid[:]...), '0'+byte(h.queueState))
	b = binary.BigEndian.AppendUint64(append(b, h.fence.Token[:]...), h.fence.Epoch)
	return binary.BigEndian.AppendUint64(append(b, h.last[:]...), h.seq)
}

// unpackHeader is the opposite of pack; the zero value: there is no header that can be read.
func unpackHeader(packed string) (h header) {
	if len(packed) != headerSize {
		return header{}
	}
	b := []byte(packed)
	copy(h.wid[:], b)
	h.queueState = store.QueueState(b[fenceFrom] - '0')
	copy(h.fence.Token[:], b[9:])
	h.fence.Epoch = binary.BigEndian.Uint64(b[17:])
	copy(h.last[:], b[25:])
	h.seq = binary.BigEndian.Uint64(b[41:])
	h.status, h.flags = statusOf(b[49]), b[50]
	h.recoveries = int(binary.BigEndian.Uint16(b[51:]))
	h.frames = uint64(binary.BigEndian.Uint32(b[53:]))
	h.bytes = int(binary.BigEndian.Uint16(b[57:]))<<32 | int(binary.BigEndian.Uint32(b[59:]))
	return h
}
