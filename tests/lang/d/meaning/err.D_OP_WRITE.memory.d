/* Memory of the process is not assigned to. */
BEGIN { *(int *)arg0 = 1; }
