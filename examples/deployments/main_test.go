package main

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The test proves that the example prints the expected distribution. During the canary each build
// gets some of the orders, and at the end no order is left on the old build.
func TestDeployments_TheNewBuildReplacesTheOldOne(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var out strings.Builder
	if err := run(ctx, &out); err != nil {
		t.Fatalf("%v, after\n%s", err, &out)
	}
	canary := regexp.MustCompile(`canary: [1-9]\d? orders on v1, [1-9]\d? on v2`)
	got := strings.Split(canary.ReplaceAllString(out.String(), "canary: some on both"), "\n")
	want := []string{
		"flowctl deploys ramp v2=0", "  v2 is deployed, without orders: 20 orders on v1, 0 on v2",
		"flowctl deploys ramp v2=50", "  canary: some on both",
		"flowctl deploys ramp v2=0", "  rollback: 20 orders on v1, 0 on v2",
		"flowctl deploys ramp v2=100", "  all new orders: 0 orders on v1, 20 on v2",
		"flowctl deploys retire v1 --to v2", "  80 of 80 orders are shipped by v2",
		"flowctl deploys drained v1", "",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}
