package sqlitestore

import (
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
	"zombiezen.com/go/sqlite"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store/protocol"
)

const runPrefix = event.PrefixRun + "_"

// bindRun binds the stored form of a run id: the 16 bytes of its ULID, which
// sort as the ids do; the text of an id that has none; null for no id.
func bindRun(s *sqlite.Stmt, param int, id event.RunID) {
	if id == "" {
		s.BindNull(param)
		return
	}
	if text, ok := strings.CutPrefix(string(id), runPrefix); ok {
		// ULIDs are case-insensitive, ids are not: only what reads back as it
		// was is packed.
		if u, err := ulid.ParseStrict(text); err == nil {
			var again [ulid.EncodedSize]byte
			if _ = u.MarshalTextTo(again[:]); string(again[:]) == text {
				s.BindBytes(param, u[:])
				return
			}
		}
	}
	s.BindText(param, string(id))
}

// unpackRun is the opposite of bindRun.
func unpackRun(r row, col int) event.RunID {
	switch r.ColumnType(col) {
	case sqlite.TypeBlob:
		var u ulid.ULID
		r.ColumnBytes(col, u[:])
		id := make([]byte, len(runPrefix)+ulid.EncodedSize)
		_ = u.MarshalTextTo(id[copy(id, runPrefix):]) // there is room
		return event.RunID(id)
	case sqlite.TypeText:
		return event.RunID(r.ColumnText(col))
	}
	return ""
}

func millis(t time.Time) int64 { return protocol.Millis(t) }

func timeOf(ms int64) time.Time { return protocol.Time(ms) }

// nonZero returns v for a column in which 0 is stored as null.
func nonZero(v int64) any {
	if v == 0 {
		return nil
	}
	return v
}

// nonEmpty returns s for a column in which "" is stored as null.
func nonEmpty(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// blob returns a copy of a column, nil for null.
func blob(r row, col int) []byte {
	n := r.ColumnLen(col)
	if n == 0 && r.ColumnIsNull(col) {
		return nil
	}
	b := make([]byte, n)
	r.ColumnBytes(col, b)
	return b
}
