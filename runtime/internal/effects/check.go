package effects

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// ErrNewer reports that a newer release wrote a record.
var ErrNewer = errors.New("a newer release wrote it")

// Check returns why no worker can deliver a record, or nil. The error matches ErrNewer if a worker
// of a newer release may be able to.
func Check(o *store.Outgoing) error {
	p, err := DecodeOutboxMessage(o.Body)
	if err == nil && p.Start != nil {
		_, err = p.Create(o)
	}
	if err != nil && (errors.As(err, new(*event.VersionError)) || unknownField(o.Body)) {
		return fmt.Errorf("%w: %w", ErrNewer, err)
	}
	return err
}

// unknownField reports whether a body has a field that this release does not know, which damage
// seldom produces.
func unknownField(body []byte) bool {
	fields := map[string]json.RawMessage{}
	if json.Unmarshal(body, &fields) != nil {
		return false
	}
	for name := range fields {
		switch name {
		case "start", "item", "rerun", "key", "answer":
		default:
			return true
		}
	}
	return false
}
