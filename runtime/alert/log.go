package alert

import (
	"context"
	"log/slog"
)

// Log writes alerts to a log, with the level Warn.
type Log struct {
	Logger *slog.Logger // nil means slog.Default()
}

// Deliver writes the alert. See [Target].
func (l *Log) Deliver(ctx context.Context, a *Alert) error {
	logger := l.Logger
	if logger == nil {
		logger = slog.Default()
	}
	logger.WarnContext(ctx, "alert: "+a.Title(), "alert", a.ID, "rule", a.Rule, "condition", a.Condition, "workflow", a.Workflow, "queue", a.Queue,
		"run", a.Run, "group", a.Group, "count", a.Count, "message", a.Message, "link", a.Link)
	return nil
}
