package thole

import "context"

// kernelRecords are the kernel's own records, without their Expirers, which kernel
// adds. Their names are [Reserved].
var kernelRecords = []RecordType{
	{Key: "outbox/{message}", About: "a commit to another space that is not delivered yet", Value: message{}},
	{Key: "sent/{message}", About: "the verdict of this space on a commit sent from another", Value: verdict{}},
	{Key: "idem/{hash}/{number}", About: "receipt of an idempotency key", Value: receipt{}},
	{Key: "idem/{hash}/{number}/{part}", About: "a part of a long answer", Value: []byte{}},
	{Key: "snap/**", About: "snapshot of a stream"},
	{Key: "erased", About: "its version changes with every purge"},
	{Key: "erased/{erasure}", About: "a purge in progress", Value: erasure{}},
	{Key: "blob/{hash}", About: "the chunks of a blob", Value: blobHead{}},
	{Key: "chunk/{hash}", About: "a part of blobs", Value: []byte{}},
	{Key: "upload", About: "its version changes when a blob relies on an existing chunk"},
	{Key: "upload/{upload}", About: "the chunks of a blob that is being put", Value: upload{}},
}

// kernel returns the concept of the kernel's own records and events and of app/, which
// belongs to applications.
func kernel() *Concept {
	k := &Concept{
		Name:  "kernel",
		About: "what the Store itself keeps, and what belongs to applications",
		Events: []EventType{
			{Type: "outbox.refused", Data: Refused{}, Streams: []string{"outbox/{message}"},
				About: "space `to` refused a commit sent to it, and the sender named no event for that"},
			{Type: "app.expired", Data: Expired{}, Streams: []string{"app/**"},
				About: "a record that an application wrote with `notify` has expired"},
			{Type: "space.adopted", Data: Adopted{}, Streams: []string{"space"}, Private: true,
				About: "people or git changed the files of a space in a `file:` store (the actor is `user:hand`); `changed` and `deleted` name records, of the kernel and of private threads too, so only admins see it"},
		},
		Records: []RecordType{
			{Key: "app/**", About: "records of applications", Expire: TellExpired},
			{Key: "app", About: "record of an application, from an earlier version"},
		},
		Leases: []LeaseType{
			{Base: "sweeper/{concept}", About: "which process ends the expired records of a concept"},
			{Base: "sweeper/{concept}/{shard}", About: "the same, for one of several stores"},
		},
		Check: checkKernel,
	}
	ends := map[string]Expirer{
		"outbox/{message}": deliver,
		"erased":           finishErasure,
		"erased/{erasure}": finishErasure,
		"upload/{upload}":  dropUpload,
	}
	for _, r := range kernelRecords {
		r.Private, r.Expire = true, ends[r.Key]
		k.Records = append(k.Records, r)
	}
	return k
}

// deliver is the Expirer of outbox records.
func deliver(ctx context.Context, sp *Space, rec Record) error { return sp.store.deliver(ctx, sp, rec) }

// Adopted is the data of space.adopted.
type Adopted struct {
	Reasons []string `json:"reasons"`
	Changed []string `json:"changed,omitempty"`
	Deleted []string `json:"deleted,omitempty"`
	Total   int      `json:"total"`
}
