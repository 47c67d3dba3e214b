// Package webhook contains the targets of alerts that receive HTTP requests.
package webhook

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/flowgen/flowgen/runtime/alert"
)

// SecretPrefix is the prefix of the secrets of Standard Webhooks.
const SecretPrefix = "whsec_"

// Bounds of secrets, in bytes.
const (
	minSecret = 24
	maxSecret = 64
)

// DefaultTimeout is how long a receiver may take to answer.
const DefaultTimeout = 10 * time.Second

// maxTimeout bounds the timeout of a receiver.
const maxTimeout = time.Minute

// Webhook sends alerts as Standard Webhooks (https://www.standardwebhooks.com). The type of the
// message is "flowgen.alert", and its data is an [alert.Alert]. The receiver must answer with a status
// from 200 to 299. Redirects are not followed.
type Webhook struct {
	URL string
	// Secret signs the messages. It is whsec_ followed by 24 to 64 bytes in base64.
	Secret string
	// AllowPrivate allows addresses that are not public, such as 127.0.0.1 or 10.0.0.8. By default
	// they are refused after the name was resolved, because a URL that others control could reach
	// services of the network of the worker.
	AllowPrivate bool
	Timeout      time.Duration // time for the answer; 0 means DefaultTimeout
}

// Check returns an *alert.ConfigError if the target is invalid.
func (w *Webhook) Check() error {
	if err := checkHTTP(w.URL, w.Timeout); err != nil {
		return err
	}
	_, err := w.key()
	return err
}

func checkHTTP(url string, timeout time.Duration) error {
	if timeout < 0 || timeout > maxTimeout {
		return &alert.ConfigError{Field: "webhook: Timeout", What: fmt.Sprintf("is %v", timeout), Fix: fmt.Sprintf("set it to at most %v", maxTimeout)}
	}
	return alert.CheckURL("webhook: URL", url)
}

// key returns the key that the secret contains.
func (w *Webhook) key() ([]byte, error) {
	text, ok := strings.CutPrefix(w.Secret, SecretPrefix)
	key, err := base64.StdEncoding.DecodeString(text)
	if !ok || err != nil || len(key) < minSecret || len(key) > maxSecret {
		return nil, &alert.ConfigError{Field: "webhook: Secret", What: "is not a secret of Standard Webhooks", Fix: fmt.Sprintf("set it to %s followed by %d to %d random bytes in base64", SecretPrefix, minSecret, maxSecret)}
	}
	return key, nil
}

// Deliver sends the alert. See [alert.Target].
func (w *Webhook) Deliver(ctx context.Context, a *alert.Alert) error {
	key, err := w.key()
	if err != nil {
		return err
	}
	body, err := json.Marshal(struct {
		Type      string       `json:"type"`
		Timestamp time.Time    `json:"timestamp"`
		Data      *alert.Alert `json:"data"`
	}{"flowgen.alert", a.Time, a})
	if err != nil {
		return fmt.Errorf("encode alert %s: %w", a.ID, err)
	}
	at := strconv.FormatInt(time.Now().Unix(), 10) // the receiver compares it with its own clock
	mac := hmac.New(sha256.New, key)
	_, _ = fmt.Fprintf(mac, "%s.%s.%s", a.ID, at, body)
	return post(ctx, a.Target, w.URL, w.AllowPrivate, w.Timeout, body, map[string]string{
		"webhook-id": string(a.ID), "webhook-timestamp": at, "webhook-signature": "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)),
	})
}

// Slack sends alerts to an incoming webhook of Slack, or of a service with the same format. The URL
// is the secret.
type Slack struct {
	URL          string
	AllowPrivate bool          // see Webhook.AllowPrivate
	Timeout      time.Duration // time for the answer; 0 means DefaultTimeout
}

// Check returns an *alert.ConfigError if the target is invalid.
func (s *Slack) Check() error { return checkHTTP(s.URL, s.Timeout) }

var slackText = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// Deliver sends the alert. See [alert.Target].
func (s *Slack) Deliver(ctx context.Context, a *alert.Alert) error {
	var text strings.Builder
	fmt.Fprintf(&text, "*%s*\n%s", slackText.Replace(a.Title()), slackText.Replace(a.Message))
	if a.Run != "" {
		fmt.Fprintf(&text, "\nfirst run: %s", slackText.Replace(string(a.Run)))
	}
	if a.Count > 1 {
		fmt.Fprintf(&text, "\nruns so far: %d", a.Count)
	}
	if a.Link != "" {
		fmt.Fprintf(&text, "\n<%s|open the console>", slackText.Replace(a.Link))
	}
	body, err := json.Marshal(map[string]string{"text": text.String()})
	if err != nil {
		return fmt.Errorf("encode alert %s: %w", a.ID, err)
	}
	return post(ctx, a.Target, s.URL, s.AllowPrivate, s.Timeout, body, nil)
}

// Reason is why a receiver has not accepted an alert.
type Reason string

// The reasons of a DeliveryError.
const (
	ReasonRedirect    Reason = "redirect"    // the receiver has answered with a redirect
	ReasonPrivate     Reason = "private"     // the address is not public
	ReasonTimeout     Reason = "timeout"     // there was no answer in time
	ReasonStatus      Reason = "status"      // the receiver has answered with another status than 2xx
	ReasonUnreachable Reason = "unreachable" // there was no connection
)

// DeliveryError reports that a receiver has not accepted an alert.
type DeliveryError struct {
	Target string
	Reason Reason
	Status int // HTTP status; 0 if there was no answer
	What   string
	Fix    string
}

func (e *DeliveryError) Error() string {
	return fmt.Sprintf("deliver alert to target %q: %s: %s", e.Target, e.What, e.Fix)
}

// maxAnswer bounds the part of an answer that is read.
const maxAnswer = 4 << 10

// post sends a body to a receiver. The error is a *DeliveryError. It does not contain the URL, which
// may be secret.
func post(ctx context.Context, target, url string, private bool, timeout time.Duration, body []byte, header map[string]string) error {
	if timeout == 0 {
		timeout = DefaultTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return &DeliveryError{Target: target, Reason: ReasonUnreachable, What: "its URL is not valid", Fix: "correct the URL of the target"}
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "flowgen-alert/1")
	for k, v := range header {
		req.Header.Set(k, v)
	}
	answer, err := clientFor(private).Do(req)
	if err != nil {
		return unanswered(ctx, target, timeout, err)
	}
	defer func() { _ = answer.Body.Close() }()
	said, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	failed := &DeliveryError{Target: target, Reason: ReasonStatus, Status: answer.StatusCode}
	switch {
	case err != nil && ctx.Err() != nil:
		return unanswered(ctx, target, timeout, err)
	case answer.StatusCode >= 200 && answer.StatusCode < 300:
		return nil
	case answer.StatusCode >= 300 && answer.StatusCode < 400:
		failed.Reason, failed.What, failed.Fix = ReasonRedirect, fmt.Sprintf("it has answered with the redirect %d", answer.StatusCode), "configure the final URL: redirects are not followed"
	default:
		failed.What, failed.Fix = fmt.Sprintf("it has answered with status %d: %s", answer.StatusCode, beginning(said)), "see the log of the receiver"
	}
	return failed
}

// beginning returns the beginning of an answer as one line.
func beginning(answer []byte) string {
	text := strings.Join(strings.Fields(strings.ToValidUTF8(string(answer[:min(len(answer), 200)]), "")), " ")
	return cmp.Or(text, "the answer is empty")
}

// unanswered returns the error of a request that got no answer.
func unanswered(ctx context.Context, target string, timeout time.Duration, err error) error {
	failed := &DeliveryError{Target: target, Reason: ReasonUnreachable}
	var private *privateError
	switch {
	case errors.As(err, &private):
		failed.Reason, failed.What, failed.Fix = ReasonPrivate, "its address "+private.addr+" is not public", "set AllowPrivate if the receiver belongs to your network"
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		failed.Reason, failed.What, failed.Fix = ReasonTimeout, fmt.Sprintf("it has not answered within %v", timeout), "let the receiver answer before it processes the alert"
	default:
		var of interface{ Unwrap() error }
		if errors.As(err, &of) && of.Unwrap() != nil {
			err = of.Unwrap() // a *url.Error contains the URL
		}
		failed.What, failed.Fix = "it cannot be reached: "+err.Error(), "check its URL and the network of the worker"
	}
	return failed
}
