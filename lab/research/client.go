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

// client sends requests to the library.
type client struct {
	base string // base URL of the library
	http *http.Client
}

// ask requests a path of the library for a question and decodes the answer into into. It converts a
// failure of the library to an error with which the step is retried later, delays all users of the
// limit, or fails permanently.
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

// after returns the delay that the library requests. Its Retry-After header may contain a fraction
// of a second, unlike in HTTP, so that the example does not take long.
func after(answer *http.Response) time.Duration {
	seconds, err := strconv.ParseFloat(answer.Header.Get("Retry-After"), 64)
	if err != nil {
		return time.Second
	}
	return time.Duration(seconds * float64(time.Second))
}
