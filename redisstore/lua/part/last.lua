-- forget_last removes a run that is deleted or purged from those that ended last. The hash keeps
-- an empty field when it has no other: a hash without fields does not exist, and fsck takes one
-- that does not exist for lost.
local function forget_last(wid, run)
  local last = tag .. 'v'
  if wid and redis.call('HGET', last, wid) == run then
    redis.call('HDEL', last, wid)
    if redis.call('EXISTS', last) == 0 then
      redis.call('HSET', last, '', '')
    end
  end
end
