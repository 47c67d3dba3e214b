// Package password lets people choose a new password.
package password

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/url"
	"time"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// Click is what the link in the mail sends.
var Click = workflow.NewHook[string]("click")

//flow:step
func mail(ctx context.Context, address, link string) error { return ctx.Err() }

//flow:step
func store(ctx context.Context, address, hash string) error { return ctx.Err() }

func link(base, token string) string {
	u, err := url.Parse(base)
	if err != nil {
		return base
	}
	u.RawQuery = url.Values{"token": {token}}.Encode()
	return u.String()
}

// reset waits an hour for the click.
//
//flow:workflow
func reset(ctx workflow.Context, address string) error {
	click, err := Click.Open(ctx)
	if err != nil {
		return err
	}
	defer click.Dispose(ctx)
	if err := Mail(ctx, address, link("https://example.com/reset", click.Token())); err != nil {
		return err
	}
	password, err := click.Receive(ctx, workflow.Timeout(time.Hour))
	if err != nil {
		return fmt.Errorf("nobody clicked: %w", err)
	}
	hash := sha256.Sum256([]byte(address + password))
	return Store(ctx, address, fmt.Sprintf("%x", hash))
}
