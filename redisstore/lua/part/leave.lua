-- leave_owner removes a run from the runs of its owner. The caller must set the new queue state
-- with a header without an owner. read is set if the header has no flag for unread items.
local function leave_owner(run, session, read)
  intact('SREM', tag .. 'o:' .. session, run)
  if not read then
    intact('HDEL', tag .. 'a:' .. session, run)
  end
end
