package main

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/internal/testutil/steplog"

	_ "github.com/flowgen/flowgen/redisstore"
)

func TestQuickstart_FulfilsAnOrderOnceOnRedis(t *testing.T) {
	t.Parallel()
	url, effects := redistest.Start(t).URL(), filepath.Join(t.TempDir(), "effects")
	first, _ := quickstart(t, "-store", url, "-effects", effects)
	checkResult(t, first)
	before := steplog.Executions(t, effects)
	second, _ := quickstart(t, "-store", url, "-effects", effects)
	if lastLine(first) != lastLine(second) {
		t.Errorf("second start ends with %q, first with %q", lastLine(second), lastLine(first))
	}
	if diff := cmp.Diff(before, steplog.Executions(t, effects)); diff != "" {
		t.Errorf("second start executed steps (-before +after):\n%s", diff)
	}
}
