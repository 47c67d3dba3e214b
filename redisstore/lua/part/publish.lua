-- publish stores the result of write_chunks, which makes the chunks visible. It notifies the
-- followers of the streams if there are any.
local function publish(chain, known, followed)
  for name, st in pairs(known) do
    for writer, nth in pairs(st.nths) do
      if nth > 0 then
        redis.call('HSET', tag .. 'W:' .. chain .. ':' .. name, writer, string.format('%.0f', nth))
      end
    end
    if st.from then
      redis.call('HSET', tag .. 'S:' .. chain, name, string.format('%.0f %.0f %.0f %s', st.from, st.last, st.longest, st.closed))
    else
      redis.call('HDEL', tag .. 'S:' .. chain, name)
    end
    if followed then
      redis.call('PUBLISH', tag .. 'stream:' .. chain, (st.closed == '0' and string.format('%.0f', st.last) or '') .. ' ' .. name)
    end
  end
end
