package webhook_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/alert"
	"github.com/flowgen/flowgen/runtime/alert/webhook"
)

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

var one = alert.Alert{
	ID: "wrun_01M8P1S4W0EDV5A7S9P9QTZCYV", Rule: "failures", Condition: alert.Failed, Target: "ops", Time: time.Unix(1_700_000_000, 0).UTC(),
	Workflow: "orders", Run: "wrun_01M8P3HWB54AXC4PWVH081M5YA", Message: "<no> order & more", Count: 3, Link: "https://console.example.com/runs/1",
}

func TestOPS9_AWebhookIsSignedByTheStandard(t *testing.T) {
	var got http.Header
	var body []byte
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got = r.Header
		body, _ = io.ReadAll(r.Body)
	}))
	defer server.Close()
	if err := (&webhook.Webhook{URL: server.URL, Secret: secret, AllowPrivate: true}).Deliver(t.Context(), &one); err != nil {
		t.Fatal(err)
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil {
		t.Fatal(err)
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(got.Get("webhook-id") + "." + got.Get("webhook-timestamp") + "." + string(body)))
	if want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)); got.Get("webhook-signature") != want || got.Get("webhook-id") != string(one.ID) {
		t.Errorf("headers: got %v, want the signature %s", got, want)
	}
	if at, err := strconv.ParseInt(got.Get("webhook-timestamp"), 10, 64); err != nil || time.Since(time.Unix(at, 0)).Abs() > time.Minute {
		t.Errorf("timestamp: got %q, want the present", got.Get("webhook-timestamp"))
	}
	var message struct {
		Type string
		Data alert.Alert
	}
	if err := json.Unmarshal(body, &message); err != nil || message.Type != "flowgen.alert" || message.Data != one {
		t.Errorf("message: got %+v and %v", message, err)
	}
}

func TestOPS9_ASlackMessageContainsTheRunAndIsEscaped(t *testing.T) {
	var message struct{ Text string }
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _ = json.NewDecoder(r.Body).Decode(&message) }))
	defer server.Close()
	if err := (&webhook.Slack{URL: server.URL, AllowPrivate: true}).Deliver(t.Context(), &one); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"*orders: failed*", "&lt;no&gt; order &amp; more", string(one.Run), "runs so far: 3", "<https://console.example.com/runs/1|"} {
		if !strings.Contains(message.Text, part) {
			t.Errorf("text: got %q, want it to contain %q", message.Text, part)
		}
	}
}

func TestOPS9_AReceiverThatDoesNotAcceptIsReportedWithTheFix(t *testing.T) {
	followed := false
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { followed = true }))
	defer other.Close()
	hang := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/redirect":
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		case "/slow":
			<-hang
		case "/slowbody":
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
			<-hang
		case "/broken":
			http.Error(w, "no\ndisk\n", http.StatusInternalServerError)
		case "/endless":
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 64<<10)); err != nil {
					return
				}
			}
		}
	}))
	defer server.Close()
	defer close(hang)
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	_, port, _ := strings.Cut(strings.TrimPrefix(server.URL, "http://"), ":")
	for name, tt := range map[string]struct {
		url     string
		private bool
		reason  webhook.Reason
		status  int
	}{
		"redirect":         {url: server.URL + "/redirect", private: true, reason: webhook.ReasonRedirect, status: http.StatusTemporaryRedirect},
		"slow":             {url: server.URL + "/slow", private: true, reason: webhook.ReasonTimeout},
		"slow body":        {url: server.URL + "/slowbody", private: true, reason: webhook.ReasonTimeout},
		"broken":           {url: server.URL + "/broken", private: true, reason: webhook.ReasonStatus, status: http.StatusInternalServerError},
		"unreachable":      {url: closed.URL, private: true, reason: webhook.ReasonUnreachable},
		"loopback":         {url: server.URL, reason: webhook.ReasonPrivate},
		"name of loopback": {url: "http://localhost:" + port, reason: webhook.ReasonPrivate},
		"mapped loopback":  {url: "http://[::ffff:127.0.0.1]:" + port, reason: webhook.ReasonPrivate},
		"unspecified":      {url: "http://0.0.0.0:" + port, reason: webhook.ReasonPrivate},
		"metadata service": {url: "http://169.254.169.254/latest", reason: webhook.ReasonPrivate},
		"private network":  {url: "http://10.0.0.8/", reason: webhook.ReasonPrivate},
		"carrier network":  {url: "http://100.64.0.1/", reason: webhook.ReasonPrivate},
		"NAT64":            {url: "http://[64:ff9b::7f00:1]/", reason: webhook.ReasonPrivate},
	} {
		w := &webhook.Webhook{URL: tt.url, Secret: secret, AllowPrivate: tt.private, Timeout: 300 * time.Millisecond}
		err := w.Deliver(context.Background(), &one)
		var typed *webhook.DeliveryError
		if name == "broken" && !strings.Contains(fmt.Sprint(err), "status 500: no disk: see") {
			t.Errorf("%s: got %v, want the answer in one line", name, err)
		}
		if !errors.As(err, &typed) || typed.Reason != tt.reason || typed.Status != tt.status || typed.Fix == "" || typed.Target != "ops" {
			t.Errorf("%s: got %v, want the reason %s and status %d", name, err, tt.reason, tt.status)
		}
	}
	if followed {
		t.Error("a redirect was followed")
	}
	if err := (&webhook.Webhook{URL: server.URL + "/endless", Secret: secret, AllowPrivate: true, Timeout: 10 * time.Second}).Deliver(t.Context(), &one); err != nil {
		t.Errorf("an endless answer with status 200: got %v, want its beginning to suffice", err)
	}
}
