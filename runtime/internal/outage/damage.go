package outage

import (
	"log/slog"

	"github.com/flowgen/flowgen/runtime/store"
)

// LogDamage logs the damage that a store has found and skipped; who identifies the process. A nil t
// reports none.
func LogDamage(logger *slog.Logger, t store.DamageTeller, who slog.Attr) {
	if t == nil {
		return
	}
	for _, d := range t.Damage() {
		logger.Error("something in the store is damaged: it is set aside until it is repaired", who, "run", d.Run, "error", d.Err) //nolint:sloglint // who is of either kind
	}
}
