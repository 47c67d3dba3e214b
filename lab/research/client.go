package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/flowgen/flowgen/runtime/step"
)

// client asks the library.
type client struct {
	base string // of its addresses
	http *http.Client
}

// ask gets what is at a path for a question. What the library says about a failure becomes
// what a step says about it: try again later, hold back all who ask, or give up.
func (c *client) ask(ctx context.Context, path, question string, into any) (err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+path+"?q="+url.QueryEscape(question), http.NoBody)
	if err != nil {
		return step.Fatal(err)
	}
	answer, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, answer.Body.Close()) }()
	failed := fmt.Errorf("%s %s: %s", path, question, answer.Status)
	switch code := answer.StatusCode; {
	case code == http.StatusTooManyRequests:
		return step.HoldBack(failed, after(answer))
	case code == http.StatusServiceUnavailable:
		return step.RetryAfter(failed, after(answer))
	case code >= http.StatusInternalServerError:
		return failed
	case code != http.StatusOK:
		return step.Fatal(failed)
	}
	return json.NewDecoder(answer.Body).Decode(into)
}

// after is how long the library wants to be left alone. Its Retry-After is in seconds, as HTTP has
// it, with a fraction: nobody wants to wait for an example.
func after(answer *http.Response) time.Duration {
	seconds, err := strconv.ParseFloat(answer.Header.Get("Retry-After"), 64)
	if err != nil {
		return time.Second
	}
	return time.Duration(seconds * float64(time.Second))
}
