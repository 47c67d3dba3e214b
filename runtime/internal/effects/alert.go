package effects

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// Alert is a run that delivers an alert. The event that ends a failed run contains its alerts, so
// the outbox records that create them depend only on the log.
type Alert struct {
	Run    event.RunID       `json:"run"`
	Target string            `json:"target"`
	Tags   map[string]string `json:"tags,omitempty"`
	Input  json.RawMessage   `json:"input"` // input of the run
}

// AlertRetention is how long a run that delivers an alert is kept after its end.
//
// A group is alerted at most once per window because the second run with the same ID is not
// created. So a run must be kept until no worker can request its creation again. Its ID contains the
// start of the window. A run that fails in the window writes its record before the window ends, and
// the record is delivered as soon as its partition and that of the receiver can be reached. Windows
// are at most a week long. So a second alert about the same window requires that a record remains
// undelivered for three weeks, or that the clocks of two partitions differ by as much.
//
// If a failover loses the run, the record that has created it creates it again, because the outbox
// sends a delivered record once more. Then the receiver may get the alert a second time, with the
// same ID. Another record that was dropped because the run existed does not return. This loses no
// alert, because the record that created the run is kept.
const AlertRetention = 30 * 24 * time.Hour

// EncodeAlerts returns alerts in the form in which an event contains them. It returns nil if there
// are none.
func EncodeAlerts(alerts []Alert) json.RawMessage {
	if len(alerts) == 0 {
		return nil
	}
	b, err := json.Marshal(alerts)
	if err != nil {
		panic("effects: encode alerts: " + err.Error()) // cannot happen: Alert is valid JSON
	}
	return b
}

func (a *Alert) spec() *event.Spec {
	return &event.Spec{Workflow: event.AlertRun, Queue: event.AlertQueue + a.Target, Tags: a.Tags, Retention: AlertRetention}
}

// sendAlerts appends the records that create the runs which deliver the alerts about a failed run.
// The run of the first failure in a window already exists for the later ones. Their senders need no
// answer.
func sendAlerts(run event.RunID, e *event.Event, all []store.Send) ([]store.Send, error) {
	var alerts []Alert
	if err := json.Unmarshal(e.Meta, &alerts); err != nil {
		return nil, fmt.Errorf("read the alerts of %s: %w", e.Type, err)
	}
	for i := range alerts {
		a := &alerts[i]
		frame, err := firstFrame(a.Run, e.Time, a.spec(), a.Input)
		if err != nil {
			return nil, err
		}
		body, err := (&OutboxMessage{Start: &Start{Frame: frame}}).Encode()
		if err != nil {
			return nil, err
		}
		all = append(all, store.Send{ID: event.DerivedItemID(run, "alert:"+string(a.Run)), To: a.Run, Body: body, First: true})
	}
	return all, nil
}

// Create returns the store request for an alert that no failed run has caused.
func (a *Alert) Create(now time.Time) (store.Create, error) {
	frame, err := firstFrame(a.Run, now, a.spec(), a.Input)
	if err != nil {
		return store.Create{}, err
	}
	return (&OutboxMessage{Start: &Start{Frame: frame}}).Create(&store.Outgoing{Send: store.Send{To: a.Run}})
}
