// Package ratelimited calls a service that responds with status 429 and Retry-After. All workers
// together keep the rate of the service, and all of them pause when the service requests a delay.
//
//	go run ./examples/recipes ratelimited
//
// The service rejects requests for a second after every five requests. The recipe prints:
//
//	12 contacts are sent, 2 requests were answered with 429, 0 came before Retry-After was over
package ratelimited

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/flowgen/flowgen/runtime/limit"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// CRM limits the requests of all workers. HoldBack pauses its rate. A request in progress is not
// interrupted by that, but with AtOnce 1 there is no other request in progress.
var CRM = limit.New("crm", limit.Config{AtOnce: 1, Rate: 50, Per: time.Second})

// Contacts contains the dependencies of the steps.
type Contacts struct {
	CRM string // base URL of the service
}

// publish sends contacts in up to ten parallel branches.
//
//flow:workflow
func publish(ctx workflow.Context, names []string) error {
	return workflow.ForEach(ctx, names, Send, workflow.Limit(10))
}

// send sends a contact. While the service rejects requests, no worker begins an attempt. An attempt
// that fails with status 429 does not count as a retry.
//
//flow:step uses=CRM retries=5 backoff=exponential(1s,1m) timeout=10s
func (c *Contacts) send(ctx context.Context, name string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPut, c.CRM+"/contacts/"+name, nil)
	if err != nil {
		return err
	}
	r.Header.Set("Idempotency-Key", step.IdempotencyKey(ctx))
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	switch {
	case answer.StatusCode == http.StatusTooManyRequests:
		return step.HoldBack(errors.New("the CRM is busy"), retryAfter(answer.Header, time.Now()))
	case answer.StatusCode >= 300:
		return fmt.Errorf("send %s: the CRM answers %s", name, answer.Status)
	}
	return nil
}

// retryAfter returns the delay that a Retry-After header requests, in seconds or as a date. Without
// a valid header, it returns a minute.
func retryAfter(h http.Header, now time.Time) time.Duration {
	text := h.Get("Retry-After")
	if seconds, err := strconv.Atoi(text); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return at.Sub(now)
	}
	return time.Minute
}
