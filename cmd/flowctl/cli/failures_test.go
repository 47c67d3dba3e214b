package cli_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/flowgen/flowgen/admin"
)

func TestOPS1_FailuresAreGroupedAndShown(t *testing.T) {
	s := open(t)
	g := s.flowctl("failures", "--json") // The step has been retried, so there is a group of kind retrying.
	var page admin.FailurePage
	if err := json.Unmarshal([]byte(g.stdout), &page); err != nil || len(page.Groups) != 2 || page.Groups[1].Kind != "retrying" || page.Groups[1].Open != 0 {
		t.Fatalf("failures: %v\n%s%s", err, g.stdout, g.stderr)
	}
	group := page.Groups[0]
	if group.Kind != "failed" || group.Workflow != "shop.order" || group.Step != "shop.ship" || group.Runs != 1 || group.Open != 1 {
		t.Errorf("the group is %+v", group)
	}
	s.wants(0, []string{"GROUP", group.Group, "failed", "1", "shop.order/shop.ship", "the carrier is"}, nil, "failures")
	s.wants(0, []string{group.Group + "\n"}, nil, "failures", "--failed", "-o", "name")
	s.wants(0, []string{group.Group + "\n" + page.Groups[1].Group + "\n"}, nil, "failures", "--failed", "--retrying", "-o", "name")
	s.wants(0, []string{`{"group":"` + group.Group + `"`}, nil, "failures", "-o", "jsonl", "--failed", "--open", "--since", "24h", "--workflow", "shop.order", "--step", "shop.ship")
	for _, none := range [][]string{{"--blocked"}, {"--retrying", "--open"}, {"--workflow", "other"}, {"--step", "other"}} {
		if g := s.flowctl(append([]string{"failures", "-o", "name"}, none...)...); g.code != 0 || g.stdout != "" {
			t.Errorf("failures %v: exit code %d, got %q, want none", none, g.code, g.stdout)
		}
	}
	s.wants(0, []string{group.Group, "failed", "the carrier is", "1, 1 now in the group", "STATUS", "order-bad"}, nil, "failures", "show", group.Group)
	s.wants(0, []string{s.runs["bad"] + "\n"}, nil, "failures", "show", group.Group, "-o", "name")
	var shown struct {
		admin.FailureGroup
		List admin.RunPage
	}
	g = s.flowctl("failures", "show", group.Group, "--json")
	if err := json.Unmarshal([]byte(g.stdout), &shown); err != nil || shown.FailureGroup != group || len(shown.List.Runs) != 1 || shown.List.Runs[0].Group != group.Group {
		t.Errorf("as JSON: %v\n%s", err, g.stdout)
	}
	s.wants(0, []string{s.runs["bad"] + "\n"}, nil, "runs", "--group", group.Group, "-o", "name")
	s.wants(0, []string{s.runs["bad"] + "\n"}, nil, "runs", "--failing", "-o", "name")
	s.wants(0, []string{"failed", "1"}, nil, "runs", "count", "--failing")
	s.wants(0, []string{`"total": 1`}, nil, "runs", "count", "--group", group.Group, "--json")
	s.wants(0, []string{`"group": "` + group.Group + `"`}, nil, "show", s.runs["bad"], "--json")
	for _, g := range []got{s.flowctl("failures"), s.flowctl("failures", "show", group.Group)} {
		if strings.ContainsAny(g.stdout+g.stderr, "\x1b\u202e") {
			t.Errorf("what a terminal obeys gets through:\n%q", g.stdout)
		}
	}
}

func TestOPS1_FailuresRefuseWhatMakesNoSense(t *testing.T) {
	s := open(t)
	s.wants(3, nil, []string{"there is no group f1-000000000000", "flowctl failures"}, "failures", "show", "f1-000000000000")
	s.wants(3, nil, []string{`"type":"https://`, `"code":"notFound"`}, "failures", "show", "f1-000000000000", "--json")
	s.wants(2, nil, []string{"is not the id of a group"}, "failures", "show", "no group")
	s.wants(2, nil, []string{"is not the id of a group"}, "runs", "--group", "no group")
	s.wants(2, nil, []string{"is not the id of a group"}, "runs", "count", "--group", "no group")
	s.wants(2, nil, []string{"--since"}, "failures", "--since", "yesterday")
	s.wants(2, nil, []string{"cursor"}, "failures", "--cursor", "x")
	s.wants(2, nil, []string{"a page of -1 groups"}, "failures", "--limit", "-1")
	s.wants(2, nil, []string{`"code":"input"`}, "failures", "--limit", "2000", "--json")
}
