// Package onboarding sends mails over the first weeks.
package onboarding

import (
	"context"
	"time"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// Mail is one letter of the series.
type Mail struct {
	After   time.Duration
	Subject string
}

var series = []Mail{{0, "welcome"}, {24 * time.Hour, "first steps"}, {7 * 24 * time.Hour, "what others do"}}

//flow:step key=subject
func send(ctx context.Context, to, subject string) error { return ctx.Err() }

//flow:step
func active(ctx context.Context, user string) (bool, error) { return user != "", ctx.Err() }

// drip stops once the user is active.
//
//flow:workflow
func drip(ctx workflow.Context, user string) (sent []string, err error) {
	began := workflow.Now(ctx)
	for _, mail := range series {
		if err := workflow.SleepUntil(ctx, began.Add(mail.After)); err != nil {
			return sent, err
		}
		if done, err := Active(ctx, user); err != nil || done && len(sent) > 0 {
			return sent, err
		}
		if err := Send(ctx, user, mail.Subject); err != nil {
			workflow.Logger(ctx).Warn("not sent", "subject", mail.Subject, "err", err)
			continue
		}
		sent = append(sent, mail.Subject)
	}
	return sent, nil
}
