package workflow

import (
	"log/slog"

	"github.com/flowgen/flowgen/runtime/internal/seam"
	"github.com/flowgen/flowgen/runtime/store"
)

// Engine returns what a worker needs of a client.
func Engine(_ seam.Gate, c *Client) (store.Store, *slog.Logger) { return c.store, c.logger }

// CheckPayload refuses a payload that is larger than the client's limit.
func CheckPayload(_ seam.Gate, c *Client, kind, name string, size int) error {
	if size <= c.limits.warn && size <= c.limits.max {
		return nil // the name is not put together for nothing
	}
	return c.limits.check(kind+name, size, false)
}

// NoteBlocked is the key of the note in which a worker says why a run is blocked.
const NoteBlocked = "flowgen.blocked"
