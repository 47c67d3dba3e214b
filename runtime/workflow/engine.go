package workflow

import (
	"log/slog"

	"github.com/flowgen/flowgen/runtime/internal/seam"
	"github.com/flowgen/flowgen/runtime/store"
)

// Engine returns what a worker needs of a client.
func Engine(_ seam.Gate, c *Client) (store.Store, *slog.Logger) { return c.store, c.logger }

// CheckPayload refuses a payload that is larger than the client's limit.
func CheckPayload(_ seam.Gate, c *Client, what string, size int) error {
	return c.limits.check(what, size, false)
}

// NoteBlocked is the key of the note in which a worker says why a run is blocked.
const NoteBlocked = "flowgen.blocked"
