package rest

import (
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/state/statetest/reminder"
)

// This is the file of a concept, as CONTRIBUTING.md explains it. It is a test's, so that
// no program serves it.

func reminderOperations() []operation {
	const all, one = "/v1/spaces/{space}/reminders", "/v1/spaces/{space}/reminders/{reminder}"
	return []operation{
		{id: "setReminder", method: "POST", path: "/v1/spaces/{space}/threads/{thread}/reminders", access: write, works: true, status: 201,
			location: "/v1/spaces/{space}/reminders/{id}", summary: "Set a reminder", does: does(setReminder)},
		{id: "listReminders", method: "GET", path: all, access: read, summary: "List reminders, oldest first", does: does(listReminders)},
		{id: "getReminder", method: "GET", path: one, access: read, summary: "Read a reminder", does: does(getReminder)},
		{id: "clearReminder", method: "DELETE", path: one, access: write, summary: "Delete a reminder", does: does(clearReminder)},
	}
}

// NewReminder is a reminder to set.
type NewReminder struct {
	Text  string `json:"text" min:"1" example:"Ask how it went"`
	After int64  `json:"after" min:"1" max:"31536000" doc:"seconds from now"`
}

type setReminderIn struct {
	ofThread
	Body NewReminder
}

func setReminder(c *call, in setReminderIn) (reminder.Reminder, error) {
	due := c.api.store.Now().Add(time.Duration(in.Body.After) * time.Second)
	return reminder.In(c.space).Set(c.ctx, in.Thread, in.Body.Text, due)
}

type listRemindersIn struct{ paging }

func listReminders(c *call, in listRemindersIn) (page[reminder.Reminder], error) {
	return pageOf(pick(in.paging, func(cursor string, limit int) (thole.PageOf[reminder.Reminder], error) {
		return reminder.In(c.space).List(c.ctx, cursor, limit)
	}, func(r reminder.Reminder) bool { return !c.private().hidesThread(r.Thread) }, func(r reminder.Reminder) string { return r.ID }))
}

type ofReminder struct {
	Reminder string `path:"reminder" doc:"the id of the reminder" example:"rem_019f3a5e0c7d7b4e9a51c7e2f0a4b8d6"`
}

func getReminder(c *call, in ofReminder) (reminder.Reminder, error) {
	if err := c.mayName("rem", in.Reminder); err != nil {
		return reminder.Reminder{}, err
	}
	return reminder.In(c.space).Get(c.ctx, in.Reminder)
}

func clearReminder(c *call, in ofReminder) (none, error) {
	if err := c.mayName("rem", in.Reminder); err != nil {
		return none{}, err
	}
	return none{}, reminder.In(c.space).Clear(c.ctx, in.Reminder)
}

// ServingReminders returns an API that also has the operations of reminders. Its list
// has one line more.
func ServingReminders(store *thole.Store, opts *Options) *API {
	return serving(store, opts, append(groups(),
		group{"reminders", "Texts that come up in a thread at a time", reminderOperations()},
	))
}
