package cli_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/admin"
)

func TestOPS2_FlowctlListsSavesAndDeletesSharedViews(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		s := openAt(t, url)
		const hostile, filter = "night \u202eshift", "status:failed tag:all=yes since:24h"
		if g := s.flowctl("views", "--json"); g.code != 0 || g.stdout != "{\n  \"views\": []\n}\n" {
			t.Errorf("without any: got %+v", g)
		}
		s.wants(0, nil, nil, "views", "save", "failures", "status:running")
		s.wants(0, []string{`"name": "failures"`, `"verb": "save"`}, nil, "views", "save", "failures", "status:failed", "--reason", "all want it", "--json")
		s.wants(0, nil, nil, "views", "save", hostile, filter)
		s.wants(0, []string{"NAME", "FILTER", "BY", "failures", "status:failed", `night \u202eshift`, filter, "@"}, nil, "views")
		var list admin.ViewList
		if g := s.flowctl("views", "--json"); json.Unmarshal([]byte(g.stdout), &list) != nil || len(list.Views) != 2 || list.Views[1].Name != hostile || list.Views[1].Filter != filter || time.Since(list.Views[1].At) > time.Hour {
			t.Errorf("--json: got %+v of %s", list, g.stdout)
		}
		if g := s.flowctl("views", "-o", "name"); g.stdout != "failures\nnight \\u202eshift\n" {
			t.Errorf("-o name: got %+v", g)
		}
		for _, args := range [][]string{{"views", "delete"}, {"views", "save"}, {"runs", "--view"}} {
			if g := s.flowctl(append(append([]string{"__complete"}, args...), "")...); !strings.Contains(g.stdout, "failures\n") || strings.Contains(g.stdout, "night") {
				t.Errorf("completion of %v: got %+v", args, g)
			}
		}
		failed := s.flowctl("runs", "--status", "failed", "-o", "name").stdout
		if g := s.flowctl("runs", "--view", "failures", "-o", "name"); g.stdout != failed || strings.Count(failed, "\n") != 1 {
			t.Errorf("runs --view: got %+v, want %q", g, failed)
		}
		s.wants(2, nil, []string{"--view and --status", "give one"}, "runs", "--view", "failures", "--status", "failed")
		s.wants(3, nil, []string{"no view", "flowctl views"}, "runs", "--view", "nobody's")
		s.wants(0, []string{"save-view", "view:failures", "all want it"}, nil, "journal", "-o", "wide")
		s.wants(0, []string{"No violations"}, nil, "fsck")
		s.wants(0, []string{`"verb": "delete"`}, nil, "views", "delete", hostile, "--json")
		s.wants(3, nil, []string{"no view has this name"}, "views", "delete", hostile)
		s.wants(0, nil, nil, "views", "delete", "failures")
		s.wants(2, nil, []string{"asleep"}, "views", "save", "a", "status:asleep")
		s.wants(2, nil, []string{"is empty", "give a name"}, "views", "save", "", "status:failed")
		s.wants(2, nil, nil, "views", "save", "a")
	})
}

// The test proves that an export, which contains no views, refuses to keep one.
func TestOPS2_AnExportRefusesToKeepAView(t *testing.T) {
	s := open(t)
	copied := &shop{t: t, url: "export:" + s.exported()}
	if g := copied.flowctl("views", "-o", "name"); g.code != 0 || g.stdout != "" {
		t.Errorf("views of an export: got %+v, want none", g)
	}
	copied.wants(4, nil, []string{"can only be read", "flowctl import"}, "views", "save", "a", "status:failed")
}
