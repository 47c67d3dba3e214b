package storetest_test

import (
	"context"
	"math"
	"strings"
	"time"

	"github.com/flowgen/flowgen/runtime/store"
)

// extremeFaults are mistakes with extreme values and unusual names.
var extremeFaults = map[string]fault{
	"a long retention overflows": {"TheLongestRetentionKeepsARun", creating(func(_ context.Context, _ wrapper, c *store.Create) {
		c.Retention = (c.Retention + time.Millisecond - 1) / time.Millisecond * time.Millisecond //nolint:durationcheck // rounded up
	})},
	"a long delay overflows": {"TheLongestDelayIsADelay", creating(func(_ context.Context, _ wrapper, c *store.Create) {
		c.Delay = time.Duration(int32(c.Delay / time.Millisecond))
	})},
	"a priority of more than 32 bits is cut": {"PrioritiesOfMoreAreRefused", creating(func(_ context.Context, _ wrapper, c *store.Create) {
		c.Priority = min(max(c.Priority, math.MinInt32), math.MaxInt32)
	})},
	"a name is cut at a zero byte": {"NamesThatAreNoneAreRefused", creating(func(_ context.Context, _ wrapper, c *store.Create) {
		c.Route.Queue, _, _ = strings.Cut(c.Route.Queue, "\x00")
	})},
	"tags are made UTF-8": {"NamesThatAreNoneAreRefused", creating(func(_ context.Context, _ wrapper, c *store.Create) {
		tags := map[string]string{}
		for name, value := range c.Tags {
			tags[strings.ToValidUTF8(name, "?")] = strings.ToValidUTF8(value, "?")
		}
		c.Tags = tags
	})},
}
