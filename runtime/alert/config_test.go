package alert_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/alert"
	"github.com/flowgen/flowgen/runtime/alert/webhook"
	"github.com/flowgen/flowgen/runtime/store"
)

type nowhere struct{}

func (nowhere) Deliver(context.Context, *alert.Alert) error { return nil }

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

func TestOPS9_AnInvalidConfigurationIsRefusedWithTheFix(t *testing.T) {
	ok := alert.Rule{Name: "a", Conditions: []alert.Condition{alert.Failed}, Target: "ops"}
	with := func(change func(r *alert.Rule)) alert.Config {
		r := ok
		change(&r)
		return alert.Config{Rules: []alert.Rule{r}}
	}
	target := func(of alert.Target) alert.Config { return alert.Config{Targets: map[string]alert.Target{"ops": of}} }
	for name, tt := range map[string]struct {
		cfg  alert.Config
		says string
	}{
		"duplicate rule":      {alert.Config{Rules: []alert.Rule{ok, ok}}, "is configured twice"},
		"rule without name":   {with(func(r *alert.Rule) { r.Name = "" }), "set Name"},
		"no condition":        {with(func(r *alert.Rule) { r.Conditions = nil }), "add alert.Failed"},
		"unknown condition":   {with(func(r *alert.Rule) { r.Conditions = []alert.Condition{"bored"} }), `unknown condition "bored"`},
		"window too short":    {with(func(r *alert.Rule) { r.Window = time.Second }), "between 1m0s and 168h0m0s"},
		"window too long":     {with(func(r *alert.Rule) { r.Window = alert.MaxWindow + 1 }), "between 1m0s and 168h0m0s"},
		"negative window":     {with(func(r *alert.Rule) { r.Window = -time.Hour }), "between 1m0s and 168h0m0s"},
		"negative after":      {with(func(r *alert.Rule) { r.After = -1 }), "After"},
		"rule without target": {with(func(r *alert.Rule) { r.Target = "" }), "name the target"},
		"target with spaces":  {with(func(r *alert.Rule) { r.Target = " ops" }), "name the target"},
		"nil target":          {target(nil), "is nil"},
		"console without URL": {alert.Config{Console: "console"}, "absolute URL"},
		"webhook URL":         {target(&webhook.Webhook{URL: "ftp://example.com", Secret: secret}), "absolute URL"},
		"webhook URL with user": {target(&webhook.Webhook{URL: "https://me:pw@example.com", Secret: secret}),
			"without a user name"},
		"webhook without secret": {target(&webhook.Webhook{URL: "https://example.com"}), "Secret"},
		"secret too short":       {target(&webhook.Webhook{URL: "https://example.com", Secret: "whsec_AAAA"}), "24 to 64"},
		"secret not base64":      {target(&webhook.Webhook{URL: "https://example.com", Secret: "whsec_" + strings.Repeat("!", 40)}), "base64"},
		"secret without prefix":  {target(&webhook.Webhook{URL: "https://example.com", Secret: secret[6:]}), "whsec_"},
		"webhook timeout":        {target(&webhook.Webhook{URL: "https://example.com", Secret: secret, Timeout: time.Hour}), "at most 1m0s"},
		"slack URL":              {target(&webhook.Slack{URL: "example.com"}), "absolute URL"},
	} {
		err := tt.cfg.Check()
		var typed *alert.ConfigError
		if !errors.As(err, &typed) || typed.Fix == "" || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: got %v, want a *ConfigError with %q", name, err, tt.says)
		}
		if err != nil && (strings.Contains(err.Error(), "pw") || strings.Contains(err.Error(), secret[6:])) {
			t.Errorf("%s: the error contains a secret: %v", name, err)
		}
	}
	valid := alert.Config{Rules: []alert.Rule{ok}, Console: "https://example.com/flow", Targets: map[string]alert.Target{
		"ops": &webhook.Webhook{URL: "https://example.com/hook", Secret: secret}, "chat": &webhook.Slack{URL: "https://example.com/x"}, "log": &alert.Log{}, "own": nowhere{},
	}}
	if err := valid.Check(); err != nil {
		t.Errorf("valid configuration: got %v", err)
	}
}

func TestOPS9_AFilterSelectsRunsThatMatchAllItsFields(t *testing.T) {
	route := store.Route{Queue: "q", Workflow: "w"}
	tags := map[string]string{"tenant": "7", "empty": ""}
	for _, tt := range []struct {
		f    alert.Filter
		want bool
	}{
		{alert.Filter{}, true},
		{alert.Filter{Workflows: []string{"v", "w"}, Queues: []string{"q"}, Tags: map[string]string{"tenant": "7"}}, true},
		{alert.Filter{Workflows: []string{"v"}}, false},
		{alert.Filter{Queues: []string{"p"}}, false},
		{alert.Filter{Tags: map[string]string{"tenant": "8"}}, false},
		{alert.Filter{Tags: map[string]string{"missing": ""}}, false},
		{alert.Filter{Tags: map[string]string{"empty": ""}}, true},
		{alert.Filter{Roots: true}, false},
	} {
		if got := tt.f.Matches(route, tags, "parent"); got != tt.want {
			t.Errorf("%+v: got %v, want %v", tt.f, got, tt.want)
		}
	}
	for _, internal := range []string{"flowgen.alert", "flowgen.hook", "flowgen.bulk", "flowgen.schedule"} {
		if (&alert.Filter{}).Matches(store.Route{Workflow: internal}, nil, "") {
			t.Errorf("a run of %s would be reported", internal)
		}
	}
}
