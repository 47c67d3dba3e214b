package fsck_test

import (
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// claimed appends a frame as a new owner.
func (s *state) claimed(run event.RunID, epoch uint64, events ...event.Event) {
	s.write(run, epoch, s.ids.Token(), events...)
}

var logDamage = map[string]damage{
	"1 a frame is cut short": {[]int{1}, func(s *state) {
		f := &s.Runs[s.parked].Frames[1]
		*f = slices.Clone((*f)[:len(*f)-1])
	}},
	"1 a bit is flipped": {[]int{1}, func(s *state) {
		f := &s.Runs[s.parked].Frames[0]
		*f = slices.Clone(*f)
		(*f)[len(*f)/2] ^= 1
	}},
	"1 a frame is missing in the middle": {[]int{1}, func(s *state) {
		s.claimed(s.ready, 2, s.logs[s.ready].Work()...)
		s.Runs[s.ready].Frames = slices.Delete(s.Runs[s.ready].Frames, 1, 2)
	}},
	"1 the last frame is missing": {[]int{1}, func(s *state) {
		r := s.Runs[s.ready]
		r.Frames = r.Frames[:1]
	}},
	"1 a log is empty":          {[]int{1}, func(s *state) { s.Runs[s.blocked].Frames = nil }},
	"1 a frame is there twice":  {[]int{1}, func(s *state) { r := s.Runs[s.ready]; r.Frames = append(r.Frames, r.Frames[1]); r.N++ }},
	"1 the log is of another":   {[]int{1}, func(s *state) { s.Runs[s.ready].Frames[1] = s.Runs[s.parked].Frames[1] }},
	"1 the count is wrong":      {[]int{1}, func(s *state) { s.Runs[s.ready].N++ }},
	"1 the sequence is wrong":   {[]int{1}, func(s *state) { s.Runs[s.ready].Seq++ }},
	"1 the last frame is wrong": {[]int{1}, func(s *state) { s.Runs[s.ready].Last = s.ids.CommitID() }},
	"1 events are missing": {[]int{1}, func(s *state) {
		l := s.logs[s.ready]
		l.State.Seq++
		c := l.Commit(store.Fence{Epoch: 1, Token: s.ids.Token()}, l.Work()...)
		r := s.Runs[s.ready]
		r.Frames, r.N, r.Seq, r.Last = append(r.Frames, c.Frame), 3, c.Last, c.CommitID
	}},
	"2 an epoch falls": {[]int{2}, func(s *state) {
		s.claimed(s.ready, 5, s.logs[s.ready].Work()...)
		s.claimed(s.ready, 4, s.logs[s.ready].Work()...)
	}},
	"2 two writers share an epoch": {[]int{2}, func(s *state) {
		s.claimed(s.ready, 2, s.logs[s.ready].Work()...)
		s.claimed(s.ready, 2, s.logs[s.ready].Work()...)
	}},
	"2 the owner shares its epoch": {[]int{2}, func(s *state) { s.Runs[s.owned].Fence.Token = s.ids.Token() }},
	"2 the epoch was given before": {[]int{2}, func(s *state) { s.Runs[s.parked].Fence.Epoch = 0 }},
	"2 a frame follows the end": {[]int{2}, func(s *state) {
		l, r := s.logs[s.ended], s.Runs[s.ended]
		c := l.Commit(store.Fence{Epoch: 2, Token: s.ids.Token()}, l.Receive(store.Item{})...)
		r.Frames, r.N, r.Seq, r.Last, r.Fence.Epoch = append(r.Frames, c.Frame), 3, c.Last, c.CommitID, 2
	}},
	"3 a step completes twice": {[]int{3}, func(s *state) {
		l, r := s.logs[s.ready], s.Runs[s.ready]
		step := l.State.Seq + 1
		s.claimed(s.ready, 2, event.Event{Type: event.StepCreated, Name: "a", Key: "a"})
		s.claimed(s.ready, 3, event.Event{Type: event.StepStarted, Ref: step, Attempt: 1})
		s.claimed(s.ready, 4, event.Event{Type: event.StepCompleted, Ref: step, Attempt: 1})
		c := l.Commit(store.Fence{Epoch: 5, Token: s.ids.Token()}, event.Event{Type: event.StepCompleted, Ref: step, Attempt: 1})
		r.Frames, r.N, r.Seq, r.Last, r.Fence.Epoch = append(r.Frames, c.Frame), r.N+1, c.Last, c.CommitID, 5
	}},
	"3 an item is received twice": {[]int{3}, func(s *state) {
		s.write(s.owned, 1, s.token, s.logs[s.owned].Receive(store.Item{ID: s.read})...)
	}},
	"3 an item is received again by the next run of the chain": {[]int{3}, func(s *state) {
		var carried event.ItemID
		for id := range s.Seen[s.continued] {
			carried = id
		}
		s.claimed(s.next, 1, s.logs[s.next].Receive(store.Item{ID: carried})...)
	}},
}

var chainDamage = map[string]damage{
	"3 an item is carried over twice": {[]int{3}, func(s *state) {
		for id := range s.Seen[s.continued] {
			s.begin(store.Item{ID: id}, store.Item{ID: id})
		}
	}},
	"3 an item is carried over from nowhere": {[]int{3}, func(s *state) {
		s.Seen[s.continued]["x"] = s.Now
		s.begin(store.Item{ID: "x"})
	}},
	"10 an item is carried over and unread": {[]int{10}, func(s *state) {
		r := s.Runs[s.next]
		r.QueueState = store.StateBlocked // a parked run would have an empty inbox
		for id := range s.Seen[s.continued] {
			r.Inbox = []store.Item{{ID: id}}
		}
	}},
	"10 a carried item was not accepted": {[]int{10}, func(s *state) { delete(s.Seen, s.continued) }},
}

var queueStateDamage = map[string]damage{
	"4 a run that has ended goes on": {[]int{4}, func(s *state) {
		s.claimed(s.next, 9, s.logs[s.next].End(event.StatusFailed)...)
		s.Runs[s.next].Status = event.StatusFailed
	}},
	"4 a run has ended before its log":  {[]int{4}, func(s *state) { r := s.Runs[s.next]; r.QueueState = store.StateEnded; s.end(r) }},
	"4 a status says another end":       {[]int{4}, func(s *state) { s.Runs[s.ended].Status = event.StatusFailed }},
	"4 a status says an end":            {[]int{4}, func(s *state) { s.Runs[s.ready].Status = event.StatusFailed }},
	"4 a tag differs":                   {[]int{4}, func(s *state) { s.Runs[s.ready].Tags = map[string]string{"customer": "8"} }},
	"4 a parent differs":                {[]int{4}, func(s *state) { s.Runs[s.ready].Parent = s.ended }},
	"4 a retention differs":             {[]int{4}, func(s *state) { s.Runs[s.ended].Retention *= 2; s.end(s.Runs[s.ended]) }},
	"4 a root differs":                  {[]int{4}, func(s *state) { s.Runs[s.ready].Root = s.ended }},
	"4 a route differs":                 {[]int{4}, func(s *state) { s.Runs[s.parked].Route.Queue = "other" }},
	"4 a workflow differs":              {[]int{4}, func(s *state) { s.Runs[s.parked].Route.Workflow = "other" }},
	"4 a workflow id differs":           {[]int{4}, func(s *state) { s.Runs[s.next].WorkflowID = "x"; s.Active["x"] = s.next }},
	"5 a ready run is not in its set":   {[]int{5}, func(s *state) { delete(s.Ready, route) }},
	"5 a ready run is in its set twice": {[]int{5}, func(s *state) { s.Ready[route] = []event.RunID{s.ready, s.ready} }},
	"5 a ready run is in another set":   {[]int{5}, func(s *state) { delete(s.Ready, route); s.Ready[store.Route{Queue: "x"}] = []event.RunID{s.ready} }},
	"5 a parked run is in a ready set":  {[]int{5}, func(s *state) { s.Ready[route] = append(s.Ready[route], s.parked) }},
	"5 a ready run is overtaken": {[]int{5}, func(s *state) {
		l, r := s.add(store.StateReady, event.Spec{})
		r.Priority = 1
		s.Ready[route] = append(s.Ready[route], l.Run)
	}},
	"5 an owned run is in no set":       {[]int{5}, func(s *state) { delete(s.Owned, s.owner) }},
	"5 an owned run is in two sets":     {[]int{5, 6}, func(s *state) { s.Leases["b"] = store.Lease{Session: "b"}; s.Owned["b"] = []event.RunID{s.owned} }},
	"5 a parked run is in an owned set": {[]int{5}, func(s *state) { s.Owned[s.owner] = append(s.Owned[s.owner], s.parked) }},
	"5 an owned run has no token":       {[]int{5}, func(s *state) { s.Runs[s.owned].Fence = store.Fence{Epoch: 2} }},
	"5 a ready run has a token":         {[]int{5}, func(s *state) { s.Runs[s.ready].Fence.Token = s.token }},
	"5 a parked run has an owner":       {[]int{5}, func(s *state) { s.Runs[s.parked].Owner = s.owner }},
	"5 a run is in no queue state":      {[]int{5}, func(s *state) { s.Runs[s.next].QueueState = 0 }},
	"7 a parked run has items":          {[]int{7}, func(s *state) { s.accept(s.parked) }},
	"7 a timer is missing":              {[]int{7}, func(s *state) { delete(s.Timers, s.parked) }},
	"7 a timer is late":                 {[]int{7}, func(s *state) { s.Timers[s.parked] = s.due.Add(time.Second) }},
	"7 a due time is not that of a log": {[]int{7}, func(s *state) {
		s.Runs[s.parked].Due = s.due.Add(time.Second)
		s.Timers[s.parked] = s.due.Add(time.Second)
	}},
	"7 a due time was forgotten":               {[]int{7}, func(s *state) { delete(s.Timers, s.parked); s.Runs[s.parked].Due = time.Time{} }},
	"7 a ready run has a timer":                {[]int{7}, func(s *state) { s.Timers[s.ready] = s.due }},
	"7 a ready run has a due time":             {[]int{7}, func(s *state) { s.Runs[s.ready].Due = s.due }},
	"8 an ended run has items":                 {[]int{8}, func(s *state) { s.accept(s.ended) }},
	"8 an ended run is in a ready set":         {[]int{8}, func(s *state) { s.Ready[route] = append(s.Ready[route], s.ended) }},
	"8 an ended run has a timer":               {[]int{8}, func(s *state) { s.Timers[s.ended] = s.due }},
	"8 an ended run has a due time":            {[]int{8}, func(s *state) { s.Runs[s.ended].Due = s.due }},
	"8 an ended run is in an owned set":        {[]int{8}, func(s *state) { s.Owned[s.owner] = append(s.Owned[s.owner], s.ended) }},
	"8 an ended run is in an unread set":       {[]int{8}, func(s *state) { s.Unread[s.owner] = append(s.Unread[s.owner], s.ended) }},
	"8 an ended run has a token":               {[]int{8}, func(s *state) { s.Runs[s.ended].Fence.Token = s.token }},
	"8 an ended run has an owner":              {[]int{8}, func(s *state) { s.Runs[s.ended].Owner = s.owner }},
	"8 an ended run stands in a line":          {[]int{8}, func(s *state) { s.Lines["order"] = append(s.Lines["order"], s.ended) }},
	"8 an ended run is never purged":           {[]int{8}, func(s *state) { delete(s.Purges, s.ended) }},
	"8 an ended run goes too early":            {[]int{8}, func(s *state) { s.Purges[s.ended] = s.Now.Add(store.Horizon) }},
	"8 a deleted run goes too early":           {[]int{8}, func(s *state) { s.hide(s.ended); s.Purges[s.ended] = s.Now }},
	"8 a deleted run is kept":                  {[]int{8}, func(s *state) { s.hide(s.ended); s.Purges[s.ended] = s.Now.Add(time.Hour) }},
	"8 a run that is held back goes too early": {[]int{8}, func(s *state) { s.Purges[s.sender] = s.Now }},
	"8 a living run is to be purged":           {[]int{8}, func(s *state) { s.Purges[s.parked] = s.due }},
	"8 a living run is deleted":                {[]int{8}, func(s *state) { s.Runs[s.parked].Hidden = true }},
	"17 a recovery is not in the audit":        {[]int{17}, func(s *state) { s.Audit = nil }},
	"17 recoveries are less than none":         {[]int{17}, func(s *state) { s.Runs[s.ready].Recoveries = -1 }},
}

// accept adds an item to an inbox, as Deliver does.
func (s *state) accept(run event.RunID) {
	i := store.Item{ID: s.ids.Item()}
	s.Runs[run].Inbox = append(s.Runs[run].Inbox, i)
	s.Seen[run] = map[event.ItemID]time.Time{i.ID: s.Now}
}

var indexDamage = map[string]damage{
	"6 an owner has no lease":                {[]int{6}, func(s *state) { delete(s.Leases, s.owner) }},
	"6 a set of runs has no lease":           {[]int{6}, func(s *state) { s.Owned["b"] = []event.RunID{} }},
	"6 an unread set has no lease":           {[]int{6}, func(s *state) { s.Unread["b"] = []event.RunID{} }},
	"6 a lease is under a wrong name":        {[]int{6}, func(s *state) { s.lease(func(l *store.Lease) { l.Session = "b" }) }},
	"6 items are not told of":                {[]int{6}, func(s *state) { delete(s.Unread, s.owner) }},
	"6 items are told of that are not there": {[]int{6}, func(s *state) { s.Runs[s.owned].Inbox = nil }},
	"6 items are told to a stranger":         {[]int{6}, func(s *state) { s.Unread[s.owner] = append(s.Unread[s.owner], s.parked) }},
	"9 a run is active without a name":       {[]int{9}, func(s *state) { s.Active["x"] = s.parked }},
	"9 an ended run is active":               {[]int{9}, func(s *state) { s.Active["order"] = s.ended }},
	"9 a living run is the last ended":       {[]int{9}, func(s *state) { s.LastEnded["order"] = s.active }},
	"9 a deleted run is the last":            {[]int{9}, func(s *state) { s.hide(s.ended); s.LastEnded["order"] = s.ended }},
	"9 a stranger is the last ended":         {[]int{9}, func(s *state) { s.LastEnded["x"] = s.ended }},
	"9 a run is not known by its name":       {[]int{9}, func(s *state) { delete(s.Active, "order") }},
	"9 a line has no active run":             {[]int{9}, func(s *state) { delete(s.Active, "order"); delete(s.Runs, s.active) }},
	"9 a queued run is in no line":           {[]int{9}, func(s *state) { delete(s.Lines, "order") }},
	"9 a queued run is in a line twice":      {[]int{9}, func(s *state) { s.Lines["order"] = append(s.Lines["order"], s.queued) }},
	"9 a parked run is in a line":            {[]int{9}, func(s *state) { s.Lines["order"] = append(s.Lines["order"], s.active) }},
	"9 a stranger is in a line": {[]int{9}, func(s *state) {
		s.Runs[s.next].QueueState = store.StateQueued
		s.Lines["order"] = append(s.Lines["order"], s.next)
	}},
	"10 an unread item was not accepted":  {[]int{10}, func(s *state) { delete(s.Seen[s.owned], s.unread) }},
	"10 a read item was not accepted":     {[]int{10}, func(s *state) { delete(s.Seen[s.owned], s.read) }},
	"10 an item is unread twice":          {[]int{10}, func(s *state) { r := s.Runs[s.owned]; r.Inbox = append(r.Inbox, r.Inbox[0]) }},
	"10 an item is read and unread":       {[]int{10}, func(s *state) { r := s.Runs[s.owned]; r.Inbox = append(r.Inbox, store.Item{ID: s.read}) }},
	"9 a continued run is the last ended": {[]int{9, 11}, func(s *state) { s.Runs[s.ended].Next = s.next }},
	"11 a chain goes on twice":            {[]int{11}, func(s *state) { s.Runs[s.parked].Chain = s.continued }},
	"11 a continuation is forgotten":      {[]int{11}, func(s *state) { s.Runs[s.continued].Next = "" }},
	"11 a run has continued unawares":     {[]int{11}, func(s *state) { s.Runs[s.parked].Next = s.next }},
	"11 the first run of a chain is gone": {[]int{11}, func(s *state) { s.purge(s.continued) }},
	"11 a run has strayed into a chain":   {[]int{11}, func(s *state) { s.Runs[s.blocked].Chain = s.ended }},
	"11 a run has left its chain":         {[]int{10, 11}, func(s *state) { s.Runs[s.next].Chain = s.next }},
	"12 a sender does not exist":          {[]int{12}, func(s *state) { s.Outbox[0].From = "wrun_x" }},
	"12 a record is there twice":          {[]int{12}, func(s *state) { s.Outbox = append(s.Outbox, s.Outbox[0]) }},
	"12 a record is in no phase":          {[]int{12}, func(s *state) { s.Outbox[0].Phase = 0 }},
	"14 a creation that nobody confirms":  {[]int{14}, func(s *state) { s.drop(s.fresh); s.outlast() }},
	"14 an item that nobody confirms":     {[]int{14}, func(s *state) { s.drop(s.answered); s.outlast() }},
	"16 a kept item was not accepted":     {[]int{16}, func(s *state) { s.Kept[s.child] = append(s.Kept[s.child], "x") }},
	"16 a kept item is of no chain":       {[]int{16}, func(s *state) { s.Kept["wrun_x"] = []event.ItemID{"x"} }},
	"15 ready runs are not announced":     {[]int{15}, func(s *state) { s.leaveAlone(); delete(s.Wakes, route) }},
	"16 a ready run does not exist":       {[]int{16}, func(s *state) { s.Ready[route] = append(s.Ready[route], "wrun_x") }},
	"16 an owned run does not exist":      {[]int{16}, func(s *state) { s.Owned[s.owner] = append(s.Owned[s.owner], "wrun_x") }},
	"16 a run with items does not exist":  {[]int{16}, func(s *state) { s.Unread[s.owner] = append(s.Unread[s.owner], "wrun_x") }},
	"16 a queued run does not exist":      {[]int{16}, func(s *state) { s.Lines["order"] = append(s.Lines["order"], "wrun_x") }},
	"16 a timed run does not exist":       {[]int{16}, func(s *state) { s.Timers["wrun_x"] = s.due }},
	"16 an active run does not exist":     {[]int{16}, func(s *state) { s.Active["x"] = "wrun_x" }},
	"16 a last run does not exist":        {[]int{16}, func(s *state) { s.LastEnded["x"] = "wrun_x" }},
	"16 a purged run does not exist":      {[]int{16}, func(s *state) { s.Purges["wrun_x"] = s.due }},
	"16 an audited run does not exist":    {[]int{16}, func(s *state) { s.Audit = append(s.Audit, store.AuditEntry{Run: "wrun_x"}) }},
	"16 a chain does not exist":           {[]int{16}, func(s *state) { s.Seen["wrun_x"] = map[event.ItemID]time.Time{"i": s.Now} }},
	"16 a run is under another's name":    {[]int{16}, func(s *state) { s.Runs["wrun_x"] = s.Runs[s.next] }},
	"16 a run has no metadata":            {[]int{16}, func(s *state) { s.Runs["wrun_x"] = nil }},
}

// outlast advances the clock by more than the time for which a record can exist after its arrival.
func (s *state) outlast() { s.Now = s.Now.Add(3*store.Horizon + time.Millisecond) }

// leaveAlone removes all sessions and the runs that they own.
func (s *state) leaveAlone() {
	delete(s.Leases, s.owner)
	delete(s.Owned, s.owner)
	delete(s.Unread, s.owner)
	delete(s.Runs, s.owned)
	delete(s.Seen, s.owned)
}
